//! What is proven of the shipped webhook by repetition: no call fails while certificates are swapped, connections are left
//! unused, replicas are stopped, or strangers storm the port. `cargo xtask prove webhook` runs the long forms.

mod idle;
mod stops;
mod storm;
mod swaps;

use anyhow::Result;
use jiff::{SignedDuration, Timestamp};
use webservice_certs::{Ca, Leaf, Validity};

fn life() -> Validity {
    Validity::lasting(SignedDuration::from_hours(24), Timestamp::now())
}

fn authority() -> Result<Ca> {
    Ok(Ca::create(life())?)
}

fn leaf(authority: &Ca) -> Result<Leaf> {
    Ok(authority.issue(&["127.0.0.1"], life())?)
}
