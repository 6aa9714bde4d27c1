//! What the guest finds around it: what its image sets, and what it can reach.

use std::io;
use std::net::{TcpStream, ToSocketAddrs};
use std::os::unix::net::UnixStream;
use std::time::Duration;

use crate::account;
use crate::sys;
use crate::wire::{Setting, Texts, Wire};

/// How long an address may take to answer.
const PATIENCE: Duration = Duration::from_secs(2);

/// The image's environment, working directory and user, before anything changed them. Text that is none is left out.
pub(crate) fn setting() -> Setting {
    let pairs = std::env::vars_os()
        .filter_map(|(name, value)| Some([name.into_string().ok()?, value.into_string().ok()?]));
    let workdir = std::env::current_dir().ok().and_then(|path| path.into_os_string().into_string().ok());
    let (uid, gid) = sys::user();
    // A user in the group of its account is in the account's further groups, too.
    let account = account::look_up(&uid.to_string()).ok().filter(|account| account.gid == gid);
    let user = account.map_or_else(|| format!("{uid}:{gid}"), |_| uid.to_string());
    Setting { env: Texts(pairs.flatten().collect()), workdir: workdir.unwrap_or_default(), user }
}

/// Tells which of the addresses that come through the socket take a connection.
pub(crate) fn reach(socket: &UnixStream) -> io::Result<()> {
    let addresses = Texts::get(&mut &*socket)?.0;
    let reached = addresses.into_iter().filter(|address| {
        let mut found = address.to_socket_addrs().into_iter().flatten();
        found.any(|address| TcpStream::connect_timeout(&address, PATIENCE).is_ok())
    });
    Texts(reached.collect()).put(&mut &*socket)
}
