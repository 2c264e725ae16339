package etcd

import (
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

// Embedded is the prefix of the names of hosts that run etcd themselves.
const Embedded = "embedded="

// Command is the command of galley that runs the server.
const Command = "etcd-server"

// Servers returns the URLs for the value of --etcd. own is the name under which this host serves; empty if it
// does not.
func Servers(text, host string) (urls []string, own string, err error) {
	list, embedded := strings.CutPrefix(text, Embedded)
	if !embedded {
		urls, err = Parse(text)
		return urls, "", err
	}
	names := strings.Split(list, ",")
	if n := len(names); n != 1 && n != 3 && n != 5 {
		return nil, "", fmt.Errorf("%s: %d hosts: want 1, 3 or 5, of which most have to be there", text, n)
	}
	for _, name := range names {
		alias, address, ok := strings.Cut(name, "@") // a host's name in the job, if it is not its address
		if !ok {
			address = name
			if alias, _, err = net.SplitHostPort(name); err != nil {
				alias, address = name, net.JoinHostPort(name, "2379")
			}
		} else if _, _, err := net.SplitHostPort(address); err != nil {
			address = net.JoinHostPort(address, "2379")
		}
		if alias == "" || strings.ContainsAny(address, "/ ") {
			return nil, "", fmt.Errorf("%q: want HOST, HOST:PORT or HOST@ADDRESS:PORT", name)
		}
		urls = append(urls, "http://"+address)
		if host != "" && alias == host {
			own = name
		}
	}
	return urls, own, nil
}

// Start starts the server of this host: program, which is galley, in another process. end stops it.
func Start(program, own, hosts, dir string) (end func(), err error) {
	address := func(name string) string {
		if _, a, ok := strings.Cut(name, "@"); ok {
			return a
		}
		return name
	}
	var list []string
	for h := range strings.SplitSeq(hosts, ",") {
		list = append(list, address(h))
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	args := []string{Command, "--name", address(own), "--hosts", strings.Join(list, ","),
		"--dir", filepath.Join(dir, "data")}
	r, err := start(program, args)
	if err != nil {
		return nil, err
	}
	select {
	case err := <-r.ended:
		return nil, fmt.Errorf("the server has ended: %w: %s", err, r.cmd.Stderr)
	case <-time.After(settle):
	}
	return supervise(r, program, args), nil
}

// running is a running server.
type running struct {
	cmd   *exec.Cmd
	stop  io.Closer // the server ends when this closes, however this process ends
	ended chan error
}

func start(path string, args []string) (*running, error) {
	r := &running{cmd: exec.Command(path, args...), ended: make(chan error, 1)}
	r.cmd.Stderr, r.cmd.SysProcAttr = &tail{}, attributes()
	var err error
	if r.stop, err = r.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	if err := r.cmd.Start(); err != nil {
		return nil, err
	}
	go func() { r.ended <- r.cmd.Wait() }()
	return r, nil
}

// supervise restarts the server when it ends, until end is called.
func supervise(r *running, path string, args []string) (end func()) {
	over, closed := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(closed)
		for {
			select {
			case <-over:
				r.stop.Close()
				<-r.ended
				return
			case <-r.ended:
			}
			for {
				time.Sleep(settle)
				next, err := start(path, args)
				if err == nil {
					r = next
					break
				}
			}
		}
	}()
	return func() {
		close(over)
		<-closed
	}
}

// settle is the time within which a server that cannot start reports it.
const settle = 150 * time.Millisecond

// tail keeps the last output of a program.
type tail struct{ text []byte }

func (t *tail) Write(b []byte) (int, error) {
	t.text = append(t.text, b...)
	t.text = t.text[max(0, len(t.text)-1<<10):]
	return len(b), nil
}

func (t *tail) String() string { return strings.TrimSpace(string(t.text)) }

var _ io.Writer = (*tail)(nil)

// Wait connects to a cluster. If its servers may still be starting, it waits for them until ctx ends.
func Wait(ctx context.Context, urls []string, starting bool) (*Store, error) {
	for {
		one, cancel := context.WithTimeout(ctx, 3*time.Second)
		s, err := Open(one, urls)
		if err == nil {
			_, err = s.List(one, "/galley/") // there is a leader
		}
		cancel()
		if err == nil {
			return s, nil
		}
		if !starting || ctx.Err() != nil {
			return nil, err
		}
		select {
		case <-ctx.Done():
			return nil, err
		case <-time.After(100 * time.Millisecond):
		}
	}
}
