//! Stage documents on disk: canonical, named, written whole or not at all.
