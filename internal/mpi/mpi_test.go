//go:build (linux || darwin) && (amd64 || arm64)

package mpi

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/galley-ml/galley/internal/comm"
	"github.com/galley-ml/galley/internal/comm/commtest"
	"github.com/galley-ml/galley/internal/comm/process"
)

// workerVariable says which worker of this test binary a process is: the launchers start it again.
const workerVariable = "GALLEY_MPI_TEST"

// workers are what processes of a job do; what they return is printed, and ends the job.
var workers = map[string]func(p *process.Process, e *Engine) error{
	"programs": programs, "panics": panics, "pieces": pieces, "fails": fails,
}

// launcher is a way to start n processes.
type testLauncher struct {
	name string
	args func(n int) []string
}

// testLaunchers are those that Debian's packages openmpi-bin and mpich bring.
var testLaunchers = []testLauncher{
	{"mpirun.openmpi", func(n int) []string {
		return []string{"-n", fmt.Sprint(n), "--oversubscribe", "--bind-to", "none"}
	}},
	{"mpiexec.hydra", func(n int) []string { return []string{"-n", fmt.Sprint(n)} }},
}

// launch runs a test of this binary in n processes.
func (l testLauncher) launch(t *testing.T, n int, worker string, args ...string) (string, error) {
	t.Helper()
	path, err := exec.LookPath(l.name)
	if err != nil {
		t.Skipf("%s is not installed", l.name)
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute) // a hang is a failed test, not a killed one
	defer cancel()
	cmd := exec.CommandContext(ctx, path, append(append(l.args(n), self), args...)...)
	cmd.Env = append(os.Environ(), workerVariable+"="+worker, "OMPI_ALLOW_RUN_AS_ROOT=1",
		"OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1")
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	err = cmd.Run()
	return out.String(), err
}

// inJob joins the job that this process is part of; the test is skipped if there is none.
func inJob(t *testing.T) (*process.Process, *Engine) {
	job, ok := Launched()
	if !ok {
		t.Skip("a part of other tests: it runs in the processes that they start")
	}
	e, err := Open(job)
	if err != nil {
		t.Fatal(err)
	}
	p := process.Join(e)
	p.SetPatience(5 * time.Minute) // cores may be crowded
	return p, e
}

// TestWorkerConformance is what each process of TestConformance runs.
func TestWorkerConformance(t *testing.T) {
	p, _ := inJob(t)
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

// TestConformance holds the engine, on each library, to the suite.
func TestConformance(t *testing.T) {
	for _, l := range testLaunchers {
		for _, n := range []int{2, 4} {
			t.Run(fmt.Sprintf("%s/%d", l.name, n), func(t *testing.T) {
				if testing.Short() && n > 2 {
					t.Skip("short")
				}
				out, err := l.launch(t, n, "", "-test.run", "^TestWorkerConformance$", "-test.v")
				if err != nil || strings.Count(out, "--- PASS: TestWorkerConformance (") != n {
					t.Errorf("%v\n%s", err, tail(out))
				}
			})
		}
	}
}

func tail(s string) string { return s[max(0, len(s)-4000):] }

// TestWorkers starts what single processes must survive.
func TestWorkers(t *testing.T) {
	for _, l := range testLaunchers {
		for _, name := range []string{"programs", "panics", "pieces", "library"} {
			t.Run(l.name+"/"+name, func(t *testing.T) {
				out, err := l.launch(t, 2, name, "-test.run", "^TestWorker$", "-test.v")
				if err != nil || strings.Count(out, "--- PASS: TestWorker (") != 2 {
					t.Errorf("%v\n%s", err, tail(out))
				}
			})
		}
		t.Run(l.name+"/fails", func(t *testing.T) {
			out, err := l.launch(t, 2, "fails", "-test.run", "^TestWorker$", "-test.v")
			if err == nil || strings.Count(out, "rank 1: out of paper") < 1 {
				t.Errorf("got %v, want the failure of rank 1\n%s", err, tail(out))
			}
		})
	}
}

// TestWorker does what the variable says.
func TestWorker(t *testing.T) {
	p, e := inJob(t)
	if err := workers[os.Getenv(workerVariable)](p, e); err != nil {
		t.Fatal(err)
	}
	if err := p.Close(); err != nil {
		t.Error(err)
	}
}

// programs runs many random programs, on stacks that grow meanwhile.
func programs(p *process.Process, _ *Engine) error {
	w, err := p.NewWorld([]int{0, 1, 1, 0})
	if err != nil {
		return err
	}
	for seed := range uint64(200) {
		program := commtest.RandomProgram(seed, w.Size(), 12)
		err := w.Run(context.Background(), func(_ context.Context, c comm.Comm) error {
			grow(int(seed) * 7 % 500)
			return program.Run(c)
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// grow takes some stack.
func grow(n int) int {
	var room [64]int
	if n > 0 {
		room[n%64] = grow(n - 1)
	}
	return room[n%64] + n
}

// panics: a nil pointer is still a panic of Go once the library is loaded.
func panics(p *process.Process, _ *Engine) error {
	w, err := p.NewWorld([]int{0, 1})
	if err != nil {
		return err
	}
	err = w.Run(context.Background(), func(_ context.Context, c comm.Comm) error {
		var nothing *testLauncher
		if c.ID() == 1 {
			fmt.Println(nothing.name)
		}
		return nil
	})
	var bug *comm.PanicError
	if !errors.As(err, &bug) || !strings.Contains(err.Error(), "nil pointer") {
		return fmt.Errorf("got %v, want the panic", err)
	}
	return nil
}

// pieces sends what is longer than one call takes.
func pieces(p *process.Process, e *Engine) error {
	pieceBytes = 1000
	for _, n := range []int{0, 1, 999, 1000, 1001, 54321} {
		data := make([]byte, n)
		for i := range data {
			data[i] = byte(i*7 + n)
		}
		got := make([]byte, n)
		t := e.Start([]comm.Message{
			{Peer: 1 - p.Rank(), Number: 1<<32 - 1, Send: true, Data: data},
			{Peer: 1 - p.Rank(), Number: 1<<32 - 1, Data: got},
		})
		e.Drive(t.Done(), nil)
		if err := t.Err(); err != nil || !bytes.Equal(got, data) {
			return fmt.Errorf("%d bytes: got other ones, %v", n, err)
		}
	}
	return nil
}

// fails: the failure of one rank is told by every process, and the launcher says that the job failed.
func fails(p *process.Process, _ *Engine) error {
	w, err := p.NewWorld([]int{0, 1})
	if err != nil {
		return err
	}
	return w.Run(context.Background(), func(_ context.Context, c comm.Comm) error {
		g, err := c.Group(nil)
		if err != nil {
			return err
		}
		if c.ID() == 1 {
			return errors.New("out of paper")
		}
		return g.Barrier()
	})
}

// TestLaunched reads the environments of launchers.
func TestLaunched(t *testing.T) {
	tests := []struct {
		env  string
		want string
	}{
		{"", ""},
		{"OMPI_COMM_WORLD_RANK=1 OMPI_COMM_WORLD_SIZE=4 PMIX_RANK=1", "mpirun (Open MPI), process 1 of 4"},
		{"PMI_RANK=2 PMI_SIZE=3", "mpiexec (MPICH), process 2 of 3"},
		{"PMI_RANK=2 PMI_SIZE=3 GALLEY_LAUNCH=1", "galley launch (MPICH), process 2 of 3"},
		{"PMI_RANK=0 PMI_SIZE=2 SLURM_PROCID=0", "srun (MPICH), process 0 of 2"},
		{"PMIX_RANK=1 SLURM_PROCID=1 SLURM_NTASKS=2", "srun (Open MPI), process 1 of 2"},
		{"SLURM_PROCID=1 SLURM_NTASKS=2", ""}, // an sbatch script itself
		{"OMPI_COMM_WORLD_RANK=0 OMPI_COMM_WORLD_SIZE=2 PMIX_RANK=0 SLURM_PROCID=0",
			"mpirun (Open MPI), process 0 of 2"},
	}
	for _, test := range tests {
		env := map[string]string{}
		for _, pair := range strings.Fields(test.env) {
			k, v, _ := strings.Cut(pair, "=")
			env[k] = v
		}
		job, ok := launched(func(k string) string { return env[k] })
		got := ""
		if ok {
			got = job.String()
		}
		if got != test.want {
			t.Errorf("%s: got %q, want %q", test.env, got, test.want)
		}
	}
}

// TestNoLibrary: what cannot be loaded is an error that says what to do.
func TestNoLibrary(t *testing.T) {
	t.Setenv(LibraryVariable, "/nowhere/libmpi.so")
	want := "GALLEY_MPI_LIBRARY=/nowhere/libmpi.so"
	if _, err := Library(MPICH); err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("got %v", err)
	}
	narrow := filepath.Join(t.TempDir(), "libmpi.so") // what a library of 32 bits begins with
	header := append([]byte("\x7fELF\x01\x01\x01"), make([]byte, 1<<10)...)
	if err := os.WriteFile(narrow, header, 0o700); err != nil {
		t.Fatal(err)
	}
	t.Setenv(LibraryVariable, narrow)
	if _, err := Library(MPICH); err == nil || !strings.Contains(err.Error(), narrow) {
		t.Errorf("a library of 32 bits: got %v", err)
	}
	t.Setenv(LibraryVariable, "libm.so.6")
	if _, err := Library(MPICH); err == nil || !strings.Contains(err.Error(), "no function MPI_") {
		t.Errorf("got %v", err)
	}
}
