//! A registry whose certificate comes from an authority of its own.

use std::net::UdpSocket;
use std::path::Path;
use std::process::{Command, Stdio};

use image::{ImageRef, Registry, RegistryOptions};

use crate::registry::{RealRegistry, options, runtime};
use crate::support::Workshop;

/// An address of this machine that others can reach; there encryption is a must.
fn outside_address() -> Option<String> {
    let socket = UdpSocket::bind("0.0.0.0:0").ok()?;
    // Sends nothing; it chooses the address from which something would be sent.
    socket.connect("192.0.2.1:9").ok()?;
    Some(socket.local_addr().ok()?.ip().to_string()).filter(|address| !address.starts_with("127."))
}

fn openssl(directory: &Path, arguments: &[&str]) -> bool {
    let mut command = Command::new("openssl");
    command.args(arguments).current_dir(directory).stdout(Stdio::null()).stderr(Stdio::null());
    command.status().is_ok_and(|status| status.success())
}

/// Writes `ca.crt`, `server.crt` and `server.key`.
fn certificates(directory: &Path, address: &str) -> bool {
    let key = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes"];
    let extensions =
        format!("subjectAltName=IP:{address}\nbasicConstraints=CA:FALSE\nextendedKeyUsage=serverAuth\n");
    std::fs::write(directory.join("extensions"), extensions).unwrap();
    let authority = ["req", "-x509", "-keyout", "ca.key", "-out", "ca.crt", "-subj", "/CN=ca", "-days", "2"];
    let request = ["req", "-keyout", "server.key", "-out", "server.csr", "-subj", "/CN=server"];
    let sign = "x509 -req -in server.csr -CA ca.crt -CAkey ca.key -CAcreateserial -out server.crt -days 2 -extfile extensions";
    openssl(directory, &[&authority[..], &key].concat())
        && openssl(directory, &[&request[..], &key].concat())
        && openssl(directory, &sign.split(' ').collect::<Vec<_>>())
}

#[test]
fn certificates_are_trusted_for_the_registry_they_lie_under() {
    let proxied = ["HTTPS_PROXY", "https_proxy", "ALL_PROXY", "all_proxy"];
    let Some(address) = outside_address().filter(|_| proxied.iter().all(|name| std::env::var(name).is_err()))
    else {
        eprintln!("skipped: certificates: this machine has no address of its own, or a proxy");
        return;
    };
    let shop = Workshop::new();
    let directory = shop.root.path();
    if !certificates(directory, &address) {
        eprintln!("skipped: certificates: openssl does not make them");
        return;
    }
    let Some(real) = RealRegistry::encrypted(&address, directory) else { return };
    let reference: ImageRef = format!("{}/team/a:1", real.host).parse().unwrap();
    let ask = |certificates: Vec<std::path::PathBuf>| {
        let registry = Registry::new(RegistryOptions { certificates, ..options(&shop) }).unwrap();
        runtime().block_on(registry.look_up(reference.remote().unwrap()))
    };
    let trusted = directory.join("certs.d");
    std::fs::create_dir_all(trusted.join(&real.host)).unwrap();
    let unknown = ask(vec![trusted.clone()]).unwrap_err().to_string();
    assert!(unknown.to_lowercase().contains("certificate"), "{unknown}");
    std::fs::copy(directory.join("ca.crt"), trusted.join(&real.host).join("ca.crt")).unwrap();
    assert_eq!(ask(vec![trusted]).unwrap(), None, "it is asked, and has no such image");
}
