//! A way to the API server that can be cut, as by a network that loses every packet.

use std::net::SocketAddr;

use tokio::io::copy_bidirectional;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::{AbortHandle, JoinSet};

use super::account::Account;
use super::must::Must;
use super::namespace::TestNamespace;

/// Forwards connections until it is cut. What is in it then is lost; who is connected or connects waits in vain.
pub struct Partition {
    address: SocketAddr,
    is_cut: watch::Sender<bool>,
    forwarding: AbortHandle,
}

impl Partition {
    /// A whole one, before the API server of `namespace`.
    pub async fn before(namespace: &TestNamespace) -> Self {
        let server = namespace.cluster().server();
        let server: SocketAddr =
            server.trim_start_matches("https://").parse().must("read the server's address");
        let listener = TcpListener::bind("127.0.0.1:0").await.must("listen");
        let address = listener.local_addr().must("listen");
        let is_cut = watch::Sender::new(false);
        let forwarding = tokio::spawn(forward(listener, server, is_cut.subscribe())).abort_handle();
        Self { address, is_cut, forwarding }
    }

    /// The same account, on this way.
    #[must_use]
    pub fn lead(&self, account: &Account, namespace: &TestNamespace) -> Account {
        account.at(namespace, &format!("https://{}", self.address))
    }

    /// Loses everything from now on.
    pub fn cut(&self) {
        self.is_cut.send_replace(true);
    }
}

impl Drop for Partition {
    fn drop(&mut self) {
        self.forwarding.abort();
    }
}

async fn forward(listener: TcpListener, server: SocketAddr, is_cut: watch::Receiver<bool>) {
    // They end with this task.
    let mut connections = JoinSet::new();
    while let Ok((client, _)) = listener.accept().await {
        connections.spawn(carry(client, server, is_cut.clone()));
        while connections.try_join_next().is_some() {}
    }
}

async fn carry(mut client: TcpStream, server: SocketAddr, mut is_cut: watch::Receiver<bool>) {
    let cut = async { is_cut.wait_for(|is_cut| *is_cut).await.is_ok() };
    let whole = async {
        let mut server = TcpStream::connect(server).await?;
        copy_bidirectional(&mut client, &mut server).await
    };
    tokio::select! {
        biased;
        true = cut => {}
        _ = whole => return,
    }
    // Silent, not closed: that would be news.
    std::future::pending::<()>().await;
}
