//go:build linux || darwin

package launch

import (
	"bytes"
	"io"
	"net"
	"runtime"
	"strings"
	"sync"
	"testing"
)

// talk is one process's end of the protocol.
type talk struct {
	t *testing.T
	c net.Conn
}

func (k talk) say(line string) {
	if _, err := k.c.Write([]byte(line + "\n")); err != nil {
		k.t.Error(err)
	}
}

func (k talk) hear() string {
	b := make([]byte, 1024)
	n, err := k.c.Read(b)
	if err != nil {
		k.t.Error(err)
	}
	return strings.TrimSpace(string(b[:n]))
}

func (k talk) ask(line, want string) {
	k.t.Helper()
	k.say(line)
	if got := k.hear(); got != want {
		k.t.Errorf("%s: got %q, want %q", line, got, want)
	}
}

// TestServer: what one process puts another gets, after a barrier.
func TestServer(t *testing.T) {
	s := &server{n: 2, size: 2, mapping: oneHost(2), values: map[string]string{}}
	var ends []talk
	done := make(chan error, 2)
	for range 2 {
		ours, theirs := net.Pipe()
		go func() { done <- s.serve(ours) }()
		ends = append(ends, talk{t, theirs})
	}
	a, b := ends[0], ends[1]
	a.ask("cmd=init pmi_version=1 pmi_subversion=1", "cmd=response_to_init pmi_version=1 pmi_subversion=1 rc=0")
	a.ask("cmd=put kvsname=galley key=P0-card value=host#1=2", "cmd=put_result rc=0 msg=success")
	b.ask("cmd=get kvsname=galley key=none", "cmd=get_result rc=-1 msg=key_not_found value=unknown")
	b.ask("cmd=get kvsname=galley key=PMI_process_mapping",
		"cmd=get_result rc=0 msg=success value=(vector,(0,1,2))")
	b.ask("cmd=get_universe_size", "cmd=universe_size size=2")
	a.say("cmd=barrier_in")
	b.say("cmd=barrier_in")
	var heard sync.WaitGroup
	for _, e := range ends { // at once: a pipe holds nothing, and the server tells whoever came first
		heard.Go(func() {
			if got := e.hear(); got != "cmd=barrier_out" {
				t.Errorf("barrier: got %q", got)
			}
		})
	}
	heard.Wait()
	b.ask("cmd=get kvsname=galley key=P0-card", "cmd=get_result rc=0 msg=success value=host#1=2")
	b.ask("cmd=dance", "cmd=dance rc=-1 msg=unknown_command")
	for _, e := range ends {
		e.ask("cmd=finalize", "cmd=finalize_ack")
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
}

// conversation is what a process says, and what it is told.
type conversation struct {
	io.Reader
	io.Writer
}

// FuzzServer: no line makes the server panic.
func FuzzServer(f *testing.F) {
	f.Add("cmd=put key=a value=b\ncmd=get key=a\ncmd=barrier_in\ncmd=finalize")
	f.Fuzz(func(t *testing.T, text string) {
		s := &server{n: 2, size: 2, values: map[string]string{}, aborted: func(string) {}}
		var out bytes.Buffer
		_ = s.serve(conversation{strings.NewReader(text), &out})
	})
}

// page is what several processes write to.
type page struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (p *page) Write(b []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.text.Write(b)
}

// TestRun: the exit code is that of the process that failed, and what was killed is said.
func TestRun(t *testing.T) {
	var out page
	shell := func(script string) (int, error) {
		out.text.Reset()
		return Run(Config{N: 3, Args: []string{"/bin/sh", "-c", script}, Stdout: &out, Stderr: &out})
	}
	if code, err := shell("echo $PMI_RANK of $PMI_SIZE by $PMI_FD"); code != 0 || err != nil ||
		strings.Count(out.text.String(), " of 3 by 3\n") != 3 {
		t.Errorf("got %d, %v and %q", code, err, &out.text)
	}
	if code, err := shell("test $PMI_RANK = 1 && exit 5; exit 0"); code != 5 || err != nil {
		t.Errorf("failure: got %d and %v, want 5", code, err)
	}
	if code, err := shell("test $PMI_RANK = 2 && kill -9 $$; sleep 100"); code != 137 || err == nil {
		t.Errorf("killed: got %d and %v, want 137 and who", code, err)
	}
	if code, err := Run(Config{N: 2, Args: []string{"/nowhere/program"}}); code != 1 || err == nil {
		t.Errorf("no program: got %d and %v", code, err)
	}
}

// TestRunStopped: where a process fails, others that are stopped go on, to see that it is over.
func TestRunStopped(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("it looks at /proc")
	}
	t.Setenv("DIR", t.TempDir())
	script := `
if [ $PMI_RANK = 1 ]; then
	echo $$ >$DIR/new; mv $DIR/new $DIR/pid; kill -STOP $$; echo went on; exit
fi
until [ -e $DIR/pid ] && grep -q '^State:.T' /proc/$(cat $DIR/pid)/status; do sleep 0.01; done; exit 4`
	var out page
	code, err := Run(Config{N: 2, Args: []string{"/bin/sh", "-c", script}, Stdout: &out, Stderr: &out})
	if code != 4 || err != nil || out.text.String() != "went on\n" {
		t.Errorf("got %d, %v and %q, want 4 and one that went on", code, err, &out.text)
	}
}
