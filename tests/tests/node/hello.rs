//! The program in the test's image. Without an argument it serves a greeting on port 8080, with an address as argument
//! it fetches one from there and prints it. Built without Cargo, so it has nothing but the standard library.

use std::io::{BufRead, BufReader, Read, Result, Write};
use std::net::{TcpListener, TcpStream};

fn main() -> Result<()> {
    match std::env::args().nth(1) {
        None => serve(&TcpListener::bind("0.0.0.0:8080")?),
        Some(address) => fetch(TcpStream::connect(address)?),
    }
}

fn serve(listener: &TcpListener) -> Result<()> {
    println!("serving");
    for connection in listener.incoming() {
        let mut connection = connection?;
        let request = BufReader::new(&connection).lines().map_while(Result::ok);
        request.take_while(|line| !line.is_empty()).for_each(drop);
        write!(connection, "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nConnection: close\r\n\r\nhello")?;
    }
    Ok(())
}

fn fetch(mut connection: TcpStream) -> Result<()> {
    write!(connection, "GET / HTTP/1.1\r\nHost: hello\r\n\r\n")?;
    let mut answer = String::new();
    connection.read_to_string(&mut answer)?;
    println!("{answer}");
    Ok(())
}
