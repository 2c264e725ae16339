package main

import (
	"os"
	"testing"
	"time"

	"github.com/galley-ml/galley/fit"
	"github.com/rogpeppe/go-internal/testscript"
)

func TestMain(m *testing.M) {
	if os.Getenv(asCommand) != "" {
		if file := os.Getenv(gateVariable); file != "" {
			besides = append(besides, gate{file: file})
		}
		os.Exit(run(os.Args[1:]))
	}
	testscript.Main(m, map[string]func(){"galley": func() { os.Exit(run(os.Args[1:])) }})
}

// gateVariable names a file: until it is there, every step of a run takes a while, so that tests which
// disturb a run do so before its end, whatever the machine.
const gateVariable = "GALLEY_TEST_GATE"

type gate struct {
	fit.CallbackBase
	file string
}

// OnStep waits a little while the gate is closed.
func (g gate) OnStep(*fit.Progress) error {
	if _, err := os.Stat(g.file); err != nil {
		time.Sleep(100 * time.Millisecond)
	}
	return nil
}

// openGate lets a run go at full speed.
func openGate(t *testing.T, file string) {
	t.Helper()
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
}

// notShort skips a test in short mode, which is how the race detector runs. It is for tests that start the
// command again and again to see what it prints and how it ends: one of each kind is left (a launch, a
// signal, a kill, an elastic job, a server, a script), and the packages that do the work have tests of their
// own.
func notShort(t *testing.T) {
	t.Helper()
	if testing.Short() {
		t.Skip("short: it starts many processes; go test without -short runs it")
	}
}

func TestScripts(t *testing.T) {
	p := testscript.Params{Dir: "testdata"}
	if testing.Short() {
		p = testscript.Params{Files: []string{"testdata/train.txt", "testdata/servebackend.txt"}}
	}
	testscript.Run(t, p)
}

func TestExitCodes(t *testing.T) {
	for want, args := range map[int][]string{
		0: {"doctor", "--fast"},
		2: {"train", "--steps", "0"},
	} {
		if got := run(args); got != want {
			t.Errorf("galley %v: exit code %d, want %d", args, got, want)
		}
	}
	for _, args := range [][]string{
		{"train", "--mesh", "dp=2,ep=4"}, {"train", "--mesh", "xp=2"}, {"train", "--zero", "5"}, {"train", "--mesh",
			"pp=64", "--batch", "64"}, {"train", "--batch", "2", "--micro", "3"},
		{"train", "--mesh", "pp=2", "--schedule", "none.txt"}, {"train", "--offload",
			"optimizer:/dev/null/state"}, {"check", "strategies", "testdata"},
	} {
		if got := run(args); got != exitUsage {
			t.Errorf("galley %v: exit code %d, want %d", args, got, exitUsage)
		}
	}
	if got := report(errFailed); got != exitFailed {
		t.Errorf("a failed check exits with %d", got)
	}
}
