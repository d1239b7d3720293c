//! Binding of addresses.

use std::io;
use std::net::{Ipv4Addr, SocketAddr};

use socket2::{Domain, Protocol, Socket, Type};
use tokio::net::TcpListener;

/// Connections that may wait to be accepted.
const BACKLOG: i32 = 1024;

/// Why an address could not be bound.
#[derive(Debug, thiserror::Error)]
#[error("failed to listen on {address} for {purpose}: {}; {}", .source, remedy(.source))]
pub struct BindError {
    /// What is served there.
    pub purpose: &'static str,
    /// The address as it was given.
    pub address: SocketAddr,
    /// What the operating system says.
    pub source: io::Error,
}

fn remedy(error: &io::Error) -> &'static str {
    match error.kind() {
        io::ErrorKind::AddrInUse => "stop the other process or choose another port",
        io::ErrorKind::PermissionDenied => "choose a port above 1023",
        _ => "choose an address of this machine",
    }
}

/// An address that connections can queue at.
#[derive(Debug)]
pub struct Listener {
    pub(crate) socket: TcpListener,
    address: SocketAddr,
}

impl Listener {
    /// The address with its actual port, also where port 0 was asked for.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }
}

/// Listens on `address`, inside a tokio runtime. `[::]` takes IPv4 connections too, and means `0.0.0.0` where the machine has no IPv6.
///
/// # Errors
/// The operating system refuses; `purpose` tells which of the addresses it was.
pub fn bind(purpose: &'static str, address: SocketAddr) -> Result<Listener, BindError> {
    let bound = match bind_exactly(address) {
        Err(error) if address.ip().is_unspecified() && address.is_ipv6() && lacks_ipv6(&error) => {
            bind_exactly(SocketAddr::from((Ipv4Addr::UNSPECIFIED, address.port())))
        }
        answer => answer,
    };
    bound.map_err(|source| BindError { purpose, address, source })
}

fn bind_exactly(address: SocketAddr) -> io::Result<Listener> {
    let socket = Socket::new(Domain::for_address(address), Type::STREAM, Some(Protocol::TCP))?;
    if address.is_ipv6() {
        // Not left to the system's default, which can be set to IPv6 alone.
        socket.set_only_v6(false)?;
    }
    // A restarted process takes the port over from connections that are still closing.
    socket.set_reuse_address(true)?;
    socket.set_nonblocking(true)?;
    socket.bind(&address.into())?;
    socket.listen(BACKLOG)?;
    let socket = TcpListener::from_std(socket.into())?;
    Ok(Listener { address: socket.local_addr()?, socket })
}

/// Either the kernel was built or booted without IPv6, or no interface has it.
fn lacks_ipv6(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::AddrNotAvailable || error.raw_os_error() == Some(EAFNOSUPPORT)
}

/// "Address family not supported by protocol" on Linux, for which the standard library has no kind.
const EAFNOSUPPORT: i32 = 97;

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn the_unspecified_address_is_reachable_over_ipv4() {
        let listener = bind("tests", "[::]:0".parse().unwrap()).unwrap();
        let port = listener.address().port();
        tokio::net::TcpStream::connect((Ipv4Addr::LOCALHOST, port)).await.unwrap();
    }

    #[tokio::test]
    async fn a_port_in_use_is_named_with_its_purpose_and_a_remedy() {
        let first = bind("tests", "127.0.0.1:0".parse().unwrap()).unwrap();
        let address = first.address();
        let error = bind("probes", address).unwrap_err().to_string();
        assert!(error.contains(&address.to_string()), "{error}");
        assert!(error.contains("probes") && error.contains("choose another port"), "{error}");
    }

    #[tokio::test]
    async fn an_address_of_another_machine_is_refused() {
        let error = bind("reviews", "192.0.2.1:0".parse().unwrap()).unwrap_err().to_string();
        assert!(error.contains("choose an address of this machine"), "{error}");
    }

    #[test]
    fn a_machine_without_ipv6_is_recognized() {
        assert!(lacks_ipv6(&io::Error::from_raw_os_error(EAFNOSUPPORT)));
        assert!(lacks_ipv6(&io::Error::from(io::ErrorKind::AddrNotAvailable)));
        assert!(!lacks_ipv6(&io::Error::from(io::ErrorKind::AddrInUse)));
    }
}
