package sockets

import (
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/galley-ml/galley"
	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/job"
	"github.com/galley-ml/galley/job/jobtest"
	"github.com/galley-ml/galley/nn"
	"github.com/galley-ml/galley/op"
	"github.com/galley-ml/galley/optim"
)

// TestSuite: all that is asked of a transport, between goroutines that are connected by sockets.
func TestSuite(t *testing.T) {
	jobtest.Run(t, func(t *testing.T, n int) []job.Transport {
		dir, list := socketDir(t), make([]job.Transport, n)
		var all sync.WaitGroup
		for i := range n {
			all.Go(func() {
				var err error
				if list[i], err = Connect(i, places(dir, n)); err != nil {
					t.Error(err)
				}
			})
		}
		all.Wait()
		return list
	})
}

// socketDir returns a directory with a short name: those of sockets are limited.
func socketDir(t *testing.T) string {
	dir, err := os.MkdirTemp("", "s")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	return dir
}

func places(dir string, n int) (at []string) {
	for i := range n {
		at = append(at, filepath.Join(dir, fmt.Sprint(i)))
	}
	return at
}

// TestMistakes: addresses are told from paths, and wrong numbers and names refused.
func TestMistakes(t *testing.T) {
	if network("127.0.0.1:80") != "tcp" || network("/tmp/0") != "unix" {
		t.Error("an address is taken for a path, or the other way round")
	}
	if _, err := Connect(2, []string{"a", "b"}); err == nil {
		t.Error("process 2 of 2 is connected")
	}
	if err := job.Register("sockets", fromEnvironment); err == nil {
		t.Error("a transport is registered twice")
	}
	t.Setenv("GALLEY_TRANSPORT", "socket")
	if _, err := job.Join(); err == nil || !strings.Contains(err.Error(), "did you mean sockets?") {
		t.Errorf("GALLEY_TRANSPORT=socket: got %v", err)
	}
}

// TestMain is also what the processes of TestTrains run.
func TestMain(m *testing.M) {
	if os.Getenv("SOCKETS_TRAIN") == "" {
		os.Exit(m.Run())
	}
	j, err := job.Join()
	if err == nil {
		var list []float64
		list, err = losses(j, &galley.Strategy{DP: 4, Zero: 1})
		if err = j.End(err, tell); err == nil && j.First() {
			fmt.Println(list)
		}
	} else {
		tell(err)
	}
	if err != nil {
		os.Exit(1)
	}
}

func tell(err error) { fmt.Fprintln(os.Stderr, err) }

func losses(j *job.Job, s *galley.Strategy) ([]float64, error) {
	d := galley.CPU(galley.Config{Threads: 1})
	defer d.Close()
	in := nn.NewInit(nn.Config{Scope: d.NewSession(), Seed: 1, DType: array.F64})
	up, down := nn.NewLinear(in.At("up"), 4, 8), nn.NewLinear(in.At("down"), 8, 2)
	tr, err := galley.NewTrainer(galley.TrainerConfig{
		Device: d, Params: in.Params(), Schedule: optim.Constant{LR: 0.01}, Strategy: s, Job: j,
		Loss: func(batch []*galley.Tensor) *galley.Tensor {
			return op.MSELoss(down.Forward(op.Tanh(up.Forward(batch[0]))), batch[1], "mean")
		},
	})
	if err != nil {
		return nil, err
	}
	defer tr.Close()
	x, y := array.New(array.F64, 8, 4), array.New(array.F64, 8, 2)
	for i := range x.Len() {
		array.Data[float64](x)[i] = math.Sin(float64(i))
	}
	for i := range y.Len() {
		array.Data[float64](y)[i] = math.Cos(float64(i))
	}
	var list []float64
	for range 4 {
		m, err := tr.Step(x, y)
		if err != nil {
			return nil, err
		}
		list = append(list, m.Loss)
	}
	return list, nil
}

// TestTrains: two processes that job.Join has connected by this transport have the losses of one.
func TestTrains(t *testing.T) {
	one, err := losses(nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	at := strings.Join(places(socketDir(t), 2), ",")
	var out [2]string
	var all sync.WaitGroup
	for rank := range 2 {
		all.Go(func() {
			cmd := exec.Command(os.Args[0])
			cmd.Env = append(os.Environ(), "SOCKETS_TRAIN=1", "GALLEY_TRANSPORT=sockets", "GALLEY_PATIENCE=5m",
				fmt.Sprint("SOCKETS_RANK=", rank), "SOCKETS_AT="+at)
			b, err := cmd.CombinedOutput()
			if out[rank] = string(b); err != nil {
				t.Errorf("process %d: %v\n%s", rank, err, b)
			}
		})
	}
	all.Wait()
	var got [4]float64
	if _, err := fmt.Sscanf(out[0], "[%g %g %g %g]", &got[0], &got[1], &got[2], &got[3]); err != nil {
		t.Fatalf("%v: %q", err, out[0])
	}
	for i := range one {
		if math.Abs(got[i]-one[i]) > 1e-12 {
			t.Errorf("step %d: loss %.15g, one process %.15g", i, got[i], one[i])
		}
	}
}
