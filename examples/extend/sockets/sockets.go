// Package sockets connects the processes of a job by stream sockets: a transport of another module than
// Galley's. GALLEY_TRANSPORT=sockets has job.Join use it, and SOCKETS_RANK and SOCKETS_AT say which process
// this is and where all of them listen: host:port for TCP, a path for a socket of this host.
package sockets

import (
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/galley-ml/galley/job"
)

func init() {
	if err := job.Register("sockets", fromEnvironment); err != nil {
		panic(err)
	}
}

func fromEnvironment() (job.Transport, error) {
	rank, err := strconv.Atoi(os.Getenv("SOCKETS_RANK"))
	if err != nil {
		return nil, fmt.Errorf("SOCKETS_RANK=%s: want this process's number", os.Getenv("SOCKETS_RANK"))
	}
	return Connect(rank, strings.Split(os.Getenv("SOCKETS_AT"), ","))
}

// patience is how long the other processes may take to come.
const patience = 5 * time.Minute

// Connect connects process rank with all others: it listens for those after it and calls those before it.
func Connect(rank int, at []string) (job.Transport, error) {
	if rank < 0 || rank >= len(at) {
		return nil, fmt.Errorf("process %d of %d: want 0 to %d", rank, len(at), len(at)-1)
	}
	l, err := net.Listen(network(at[rank]), at[rank])
	if err != nil {
		return nil, err
	}
	defer l.Close()
	conns := make([]net.Conn, len(at))
	for peer := range rank {
		if conns[peer], err = call(at[peer], rank); err != nil {
			return nil, err
		}
	}
	for range len(at) - 1 - rank {
		c, err := l.Accept()
		if err != nil {
			return nil, err
		}
		var number [4]byte
		if _, err := io.ReadFull(c, number[:]); err != nil {
			return nil, err
		}
		peer := int(binary.LittleEndian.Uint32(number[:]))
		if peer <= rank || peer >= len(at) || conns[peer] != nil {
			return nil, fmt.Errorf("process %d: one that says it is %d has called", rank, peer)
		}
		conns[peer] = c
	}
	return newTransport(rank, conns), nil
}

func network(at string) string {
	if strings.Contains(at, "/") {
		return "unix"
	}
	return "tcp"
}

// call calls a process that may not listen yet, and says who calls.
func call(at string, rank int) (net.Conn, error) {
	for end := time.Now().Add(patience); ; time.Sleep(5 * time.Millisecond) {
		c, err := net.Dial(network(at), at)
		if err == nil {
			_, err = c.Write(binary.LittleEndian.AppendUint32(nil, uint32(rank)))
			return c, err
		}
		if time.Now().After(end) {
			return nil, err
		}
	}
}
