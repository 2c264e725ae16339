package sockets

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/galley-ml/galley/internal/comm"
	"github.com/galley-ml/galley/internal/comm/commtest"
	"github.com/galley-ml/galley/internal/comm/process"
	"github.com/galley-ml/galley/internal/mpi/launch"
)

// workerVariable says that a process is one of those that a test has started.
const workerVariable = "GALLEY_SOCKETS_TEST"

// run starts n processes of a test of this binary.
func run(t *testing.T, n int, worker, test string) (string, int) {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv(workerVariable, worker)
	out, err := os.Create(filepath.Join(t.TempDir(), "out"))
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close()
	code, err := launch.Run(launch.Config{N: n, Args: []string{self, "-test.run", "^" + test + "$", "-test.v"},
		Stdout: out, Stderr: out})
	text, _ := os.ReadFile(out.Name())
	return fmt.Sprintf("%s%v", text, err), code
}

// inJob joins the job that a test has started this process for.
func inJob(t *testing.T) *process.Process {
	if os.Getenv(workerVariable) == "" {
		t.Skip("a part of other tests: it runs in the processes that they start")
	}
	e, err := Open()
	if err != nil {
		t.Fatal(err)
	}
	p := process.Join(e)
	p.SetPatience(5 * time.Minute) // cores may be crowded
	return p
}

// TestWorkerConformance is what each process of TestConformance runs.
func TestWorkerConformance(t *testing.T) {
	p := inJob(t)
	commtest.Run(t, func(n int, body func(comm.Comm) error) error {
		owner := make([]int, n)
		for rank := range owner {
			owner[rank] = rank % p.Size()
		}
		w, err := p.NewWorld(owner)
		if err != nil {
			return err
		}
		return w.Run(t.Context(), func(_ context.Context, c comm.Comm) error { return body(c) })
	})
	if err := p.Close(); err != nil {
		t.Error(err)
	}
}

// TestConformance holds the engine to the suite of transports.
func TestConformance(t *testing.T) {
	for _, n := range []int{2, 3} {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			if testing.Short() && n > 2 {
				t.Skip("short")
			}
			out, code := run(t, n, "conformance", "TestWorkerConformance")
			if code != 0 || strings.Count(out, "--- PASS: TestWorkerConformance (") != n {
				t.Errorf("exit code %d\n%s", code, out[max(0, len(out)-4000):])
			}
		})
	}
}

// TestWorkerLost: a process ends without a word; the others hear of it at once.
func TestWorkerLost(t *testing.T) {
	p := inJob(t)
	if p.Rank() == 1 {
		os.Exit(0)
	}
	began := time.Now()
	_, err := p.Exchange(0, []byte("hello"))
	if err == nil || !process.IsLost(err) || time.Since(began) > time.Minute {
		t.Errorf("after %v: got %v", time.Since(began), err)
	}
}

// TestLost runs it.
func TestLost(t *testing.T) {
	out, _ := run(t, 2, "lost", "TestWorkerLost")
	if strings.Count(out, "--- PASS: TestWorkerLost (") != 1 {
		t.Error(out)
	}
}

// TestOrder: messages of one number meet in the order in which they were sent, whether they were asked for
// before or after they came, and those of a wrong size are errors.
func TestOrder(t *testing.T) {
	for _, late := range []bool{false, true} {
		a, b := pair(t, quiet)
		one, two := make([]byte, 3), make([]byte, 3)
		receive := func() (comm.Transfer, comm.Transfer) {
			return b.Start([]comm.Message{{Peer: 0, Number: 7, Data: one}}),
				b.Start([]comm.Message{{Peer: 0, Number: 7, Data: two}})
		}
		var first, second comm.Transfer
		if !late {
			first, second = receive()
		}
		sent := a.Start([]comm.Message{{Peer: 1, Number: 7, Send: true, Data: []byte("abc")},
			{Peer: 1, Number: 7, Send: true, Data: []byte("def")}})
		<-sent.Done()
		if late {
			time.Sleep(20 * time.Millisecond)
			first, second = receive()
		}
		<-first.Done()
		<-second.Done()
		if string(one) != "abc" || string(two) != "def" || first.Err() != nil {
			t.Errorf("late %v: got %q, %q and %v", late, one, two, first.Err())
		}
		wrong := b.Start([]comm.Message{{Peer: 0, Number: 8, Data: one}})
		<-a.Start([]comm.Message{{Peer: 1, Number: 8, Send: true, Data: []byte("long")}}).Done()
		if <-wrong.Done(); wrong.Err() == nil {
			t.Errorf("late %v: a message of another size was taken", late)
		}
	}
}

// TestStrangers: a process that does not know the secret is not let in, and those that are meant are.
func TestStrangers(t *testing.T) {
	told := make(chan string, 1)
	_, b := pair(t, func(_ int, note []byte, _ error) { told <- string(note) })
	b.Post(0, []byte("hello"))
	if got := <-told; got != "hello" {
		t.Errorf("got %q", got)
	}
}

// quiet does not listen.
func quiet(int, []byte, error) {}

// pair returns two engines that are connected, after a stranger has called.
func pair(t *testing.T, listen func(int, []byte, error)) (a, b *Engine) {
	t.Helper()
	a, b = newEngine(0, 2), newEngine(1, 2)
	l, err := net.Listen("tcp", ":0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	port, secret, done := l.Addr().(*net.TCPAddr).Port, strings.Repeat("s", helloBytes-4), make(chan error, 1)
	go func() { done <- a.answer(l, secret) }()
	if _, err := call(newCard(strings.Repeat("x", helloBytes-4), port), 1); err == nil {
		t.Fatal("a stranger was let in")
	}
	if b.peers[0].conn, err = call(newCard(secret, port), 1); err != nil {
		t.Fatal(err)
	}
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	a.Listen(listen)
	b.Listen(quiet)
	t.Cleanup(func() {
		go a.Close()
		b.Close()
	})
	return a, b
}
