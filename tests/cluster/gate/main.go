// Gate holds the namespaces of a node and is the only way into its network: it accepts on the listening socket that it
// was given as standard input, which stays in the network where it was opened, and dials the address it was given in
// the network where it runs.
//
//	gate ADDRESS < listening socket
package main

import (
	"errors"
	"io"
	"log"
	"net"
	"os"
	"time"
)

func main() {
	if len(os.Args) != 2 {
		log.Fatal("usage: gate ADDRESS < listening socket")
	}
	listener, err := net.FileListener(os.Stdin)
	if err != nil {
		log.Fatalf("failed to use standard input as a listening socket: %v", err)
	}
	log.Printf("forwarding %s to %s", listener.Addr(), os.Args[1])
	for {
		client, err := listener.Accept()
		if err != nil {
			// Out of file descriptors, most likely: others will be closed.
			log.Printf("failed to accept: %v", err)
			time.Sleep(100 * time.Millisecond)
			continue
		}
		go forward(client.(*net.TCPConn), os.Args[1])
	}
}

// forward carries bytes both ways until both sides have said that they are done.
func forward(client *net.TCPConn, address string) {
	defer client.Close()
	connection, err := net.DialTimeout("tcp", address, 5*time.Second)
	if err != nil {
		log.Printf("failed to reach %s: %v", address, err)
		return
	}
	server := connection.(*net.TCPConn)
	defer server.Close()

	answered := make(chan struct{})
	go func() {
		defer close(answered)
		pipe(client, server)
	}()
	pipe(server, client)
	<-answered
}

// pipe copies until the source ends, and passes the end on. A connection that broke ends the other direction too.
func pipe(to, from *net.TCPConn) {
	if _, err := io.Copy(to, from); err != nil && !errors.Is(err, net.ErrClosed) {
		to.Close()
		from.Close()
		return
	}
	to.CloseWrite()
}
