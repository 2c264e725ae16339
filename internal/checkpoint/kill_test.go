package checkpoint

import (
	"bufio"
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"strconv"
	"testing"
	"time"
)

const childDir = "GALLEY_CHECKPOINT_TEST_DIR"

// TestMain turns the test binary into a process that saves until it is killed, where it is asked to.
func TestMain(m *testing.M) {
	if dir := os.Getenv(childDir); dir != "" {
		if err := saveForever(dir); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
	}
	os.Exit(m.Run())
}

// saveForever resumes and saves step after step; it prints each that is certainly saved.
func saveForever(dir string) error {
	k, err := NewKeeper(Config{Dir: dir, Keep: 2})
	if err != nil {
		return err
	}
	step := int64(0)
	if r, err := Open(dir, OpenConfig{}); err == nil {
		step = r.Meta().Step
	}
	for {
		step++
		if err := k.Save(context.Background(), sample(step)); err != nil {
			return err
		}
		if step%2 == 0 { // every other save runs beside the next one's start
			if err := k.Wait(context.Background()); err != nil {
				return err
			}
			fmt.Println(step)
		}
	}
}

// TestKill kills a process that saves at random moments and looks at what is left.
func TestKill(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	var promised int64
	kills := 20
	if testing.Short() {
		kills = 5
	}
	torn := 0
	for i := range kills {
		promised = max(promised, runAndKill(t, dir))
		if _, temps, err := list(dir); err != nil {
			t.Fatal(err)
		} else if len(temps) > 0 {
			torn++
		}
		r, err := Open(dir, OpenConfig{})
		if err != nil {
			if promised == 0 {
				continue // killed before the first was in place
			}
			t.Fatalf("kill %d: %v", i, err)
		}
		if step := r.Meta().Step; step < promised || len(r.Skipped()) > 0 {
			t.Errorf("kill %d: got step %d, skipped %v, want at least %d and none", i, step, r.Skipped(), promised)
		}
		checkSample(t, r)
		r.Close()
	}
	t.Logf("%d of %d kills left something half-written; got to step %d", torn, kills, promised)
	if promised < int64(kills) {
		t.Errorf("got to step %d only", promised)
	}
	newKeeper(t, Config{Dir: dir})
	for _, name := range names(t, dir) {
		if _, ok := parseName(name); !ok {
			t.Errorf("left behind: %s", name)
		}
	}
}

// runAndKill runs the process for a moment and is the last step that it said was saved.
func runAndKill(t *testing.T, dir string) int64 {
	t.Helper()
	cmd := exec.Command(must(os.Executable()))
	cmd.Env = append(os.Environ(), childDir+"="+dir)
	cmd.Stderr = os.Stderr
	out := must(cmd.StdoutPipe())
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	// The clock starts at the first save, or else a slow machine would only ever kill processes that begin.
	lines := bufio.NewScanner(out)
	var last int64
	var timer *time.Timer
	for lines.Scan() {
		last = must(strconv.ParseInt(lines.Text(), 10, 64))
		if timer == nil {
			timer = time.AfterFunc(rand.N(60*time.Millisecond), func() { cmd.Process.Kill() })
		}
	}
	if timer == nil {
		t.Error("the process ended by itself")
	}
	cmd.Wait()
	return last
}
