//! tmp
use sha2::Digest;
use std::io::Write;
#[test]
fn t() {
    let b = std::fs::read("/tmp/kb/bin/kube-proxy").unwrap();
    let s = std::time::Instant::now();
    let d = sha2::Sha256::digest(&b);
    println!("sha {:?} {}", s.elapsed(), d[0]);
    let s = std::time::Instant::now();
    let mut e = flate2::GzBuilder::new().write(Vec::new(), flate2::Compression::fast());
    e.write_all(&b).unwrap();
    println!("gz fast {} {:?}", e.finish().unwrap().len(), s.elapsed());
}
