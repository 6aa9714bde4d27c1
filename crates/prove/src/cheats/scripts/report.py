import atexit as _atexit
import os as _os
import sys as _sys


def _tell(text):
    for _fd in range(1, 64):
        try:
            if _os.path.realpath("/proc/self/fd/%d" % _fd).startswith(("/dev/null", "/proc/", "/sys/")):
                continue
            _os.write(_fd, text)
        except OSError:
            pass
