package sockets

import (
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"time"
)

// Times of connecting: how long one address has, and how long a process waits for all others.
const (
	dialFor = 2 * time.Second
	meetFor = 60 * time.Second
)

// Open joins the job for which galley launch started this process.
func Open() (*Engine, error) {
	l, err := newLauncher(os.Getenv)
	if err != nil {
		return nil, fmt.Errorf("sockets: %w", err)
	}
	e, err := connect(l)
	if err != nil {
		return nil, fmt.Errorf("sockets: %w", err)
	}
	return e, l.close()
}

// connect connects this process with all others: each calls those before it, and is called by those behind.
func connect(l *launcher) (*Engine, error) {
	listener, err := net.Listen("tcp", ":0")
	if err != nil {
		return nil, err
	}
	defer listener.Close()
	secret := rand.Text()
	cards, err := l.exchange(newCard(secret, listener.Addr().(*net.TCPAddr).Port))
	if err != nil {
		return nil, err
	}
	e := newEngine(l.rank, l.size)
	called := make(chan error, 1)
	go func() { called <- e.answer(listener, secret) }()
	for peer := range l.rank {
		c, err := call(cards[peer], l.rank)
		if err != nil {
			return nil, fmt.Errorf("process %d: %w", peer, err)
		}
		e.peers[peer].conn = c
	}
	return e, <-called
}

// newCard is how a process is reached: its secret, its port and its addresses, this machine's own first.
func newCard(secret string, port int) string {
	list := []string{secret, fmt.Sprint(port), "127.0.0.1"}
	addresses, _ := net.InterfaceAddrs() // without any, the machine's own is left
	for _, a := range addresses {
		ip, ok := a.(*net.IPNet)
		if ok && !ip.IP.IsLoopback() && !ip.IP.IsLinkLocalUnicast() && len(list) < 16 {
			list = append(list, ip.IP.String())
		}
	}
	return strings.Join(list, ",")
}

// helloBytes is a secret and a rank.
const helloBytes = 26 + 4

// call connects to the process of a card. An address may be another process's of another machine: only the
// one that is meant knows the secret.
func call(card string, rank int) (net.Conn, error) {
	words := strings.Split(card, ",")
	if len(words) < 3 {
		return nil, fmt.Errorf("its card is %q", card)
	}
	var errs []error
	for range 3 { // a busy machine may take longer than one try has
		for _, address := range words[2:] {
			c, err := net.DialTimeout("tcp", net.JoinHostPort(address, words[1]), dialFor)
			if err == nil {
				if err = greet(c, words[0], rank); err == nil {
					return c, nil
				}
				c.Close()
			}
			errs = append(errs, err)
		}
	}
	return nil, fmt.Errorf("it cannot be reached: %w", errors.Join(errs...))
}

// greet says who calls whom, and waits until the other says that it is meant.
func greet(c net.Conn, secret string, rank int) error {
	if err := c.SetDeadline(time.Now().Add(dialFor)); err != nil {
		return err
	}
	hello := binary.LittleEndian.AppendUint32([]byte(secret), uint32(rank))
	if _, err := c.Write(hello); err != nil {
		return err
	}
	if _, err := io.ReadFull(c, make([]byte, 1)); err != nil {
		return fmt.Errorf("%s is another's: %w", c.RemoteAddr(), err)
	}
	return c.SetDeadline(time.Time{})
}

// answer takes the calls of the processes behind this one.
func (e *Engine) answer(l net.Listener, secret string) error {
	if err := l.(*net.TCPListener).SetDeadline(time.Now().Add(meetFor)); err != nil {
		return err
	}
	for left := e.size - 1 - e.rank; left > 0; {
		c, err := l.Accept()
		if err != nil {
			return fmt.Errorf("%d processes have not called: %w", left, err)
		}
		hello := make([]byte, helloBytes)
		_ = c.SetDeadline(time.Now().Add(dialFor)) // one that cannot be set is seen when it is read
		_, err = io.ReadFull(c, hello)
		from := int(binary.LittleEndian.Uint32(hello[helloBytes-4:]))
		if err != nil || string(hello[:helloBytes-4]) != secret || from <= e.rank || from >= e.size ||
			e.peers[from].conn != nil {
			c.Close()
			continue
		}
		if _, err := c.Write([]byte{1}); err != nil {
			c.Close()
			continue
		}
		_ = c.SetDeadline(time.Time{})
		e.peers[from].conn, left = c, left-1
	}
	return nil
}
