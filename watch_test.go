package galley_test

import (
	"encoding/csv"
	"encoding/json"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/galley-ml/galley"
	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/fit"
	"github.com/galley-ml/galley/nn"
	"github.com/galley-ml/galley/op"
)

// asked is a loader that reports which batch it makes.
type asked struct {
	galley.Loader
	tell chan int
}

func (l asked) Batch(i int) ([]array.Array, error) {
	l.tell <- i
	return l.Loader.Batch(i)
}

// TestFitReadsAhead: while a step is taken, and its callbacks run, the batches of the next ones are made; a
// few, not all.
func TestFitReadsAhead(t *testing.T) {
	tell := make(chan int, 100)
	wait := onStep{f: func(p *fit.Progress) error {
		for want := p.Step; want < min(p.Step+2, 8); want++ { // the batches after this one
			for got := -1; got < want; {
				select {
				case got = <-tell:
				case <-time.After(20 * time.Second):
					return fmt.Errorf("after step %d batch %d is not made", p.Step, want)
				}
				if got > p.Step+2 {
					return fmt.Errorf("after step %d batch %d is made already", p.Step, got)
				}
			}
			if want+1 < min(p.Step+2, 8) {
				continue
			}
			tell <- want // the next step looks for it, too
		}
		return nil
	}}
	h, err := newEngine(t, nil, wait).Fit(t.Context(), asked{windows(t), tell}, galley.FitConfig{Steps: 8})
	if err != nil {
		t.Fatal(err)
	}
	if h.Steps[0].Wait <= 0 {
		t.Error("the wait for the first batch is not told")
	}
}

// TestRunLog: a row for each step and evaluation, as JSONL and as CSV.
func TestRunLog(t *testing.T) {
	var lines, table strings.Builder
	for format, w := range map[string]*strings.Builder{"jsonl": &lines, "csv": &table} {
		log, err := fit.NewRunLog(w, format, false)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := newEngine(t, nil, log).Fit(t.Context(), windows(t), galley.FitConfig{Steps: 3,
			Valid: windows(t), ValidBatches: 1}); err != nil {
			t.Fatal(err)
		}
	}
	var steps []float64
	for _, line := range strings.Split(strings.TrimSpace(lines.String()), "\n") {
		var row map[string]float64
		if err := json.Unmarshal([]byte(line), &row); err != nil {
			t.Fatalf("%q: %v", line, err)
		}
		steps = append(steps, row["step"])
		if _, ok := row["valid_loss"]; ok == (row["loss"] > 0) {
			t.Errorf("row %v", row)
		}
	}
	rows, err := csv.NewReader(strings.NewReader(table.String())).ReadAll()
	if err != nil || len(rows) != 5 || rows[0][0] != "step" || rows[4][1] != "" || rows[4][4] == "" ||
		fmt.Sprint(steps) != "[1 2 3 3]" {
		t.Errorf("rows %v, %v; steps %v", rows, err, steps)
	}
	if _, err := fit.NewRunLog(&lines, "xml", false); err == nil {
		t.Error("a format is made up")
	}
}

// nanModel divides 0 by 0 for the rows whose first number is 0.
func nanModel(d *galley.Device) ([]*nn.Param, func(batch []*op.Tensor) *op.Tensor) {
	in := nn.NewInit(nn.Config{Scope: d.NewSession()})
	w := in.Param("w", array.Shape{3}, nn.Constant(1))
	return in.Params(), func(batch []*op.Tensor) *op.Tensor {
		x := op.Mul(batch[0], w.Value)
		bad := op.Div(x, batch[0]) // the line that is wanted
		return op.Mean(op.AddScalar(bad, 1))
	}
}

// TestDetectNaN names the op that made the first NaN, with its line: compiled, op by op, on many devices.
func TestDetectNaN(t *testing.T) {
	for name, c := range map[string]galley.TrainerConfig{
		"static": {}, "eager": {Mode: galley.Eager}, "many": {Strategy: &galley.Strategy{DP: 2}},
	} {
		t.Run(name, func(t *testing.T) {
			d := device(t)
			c.Device, c.DetectNaN = d, true
			c.Params, c.Loss = nanModel(d)
			tr, err := galley.NewTrainer(c)
			if err != nil {
				t.Fatal(err)
			}
			defer tr.Close()
			good := array.FromSlice([]float32{1, 2, 3, 4, 5, 6}, 2, 3)
			if _, err := tr.Step(good); err != nil {
				t.Fatal(err)
			}
			_, err = tr.Step(array.FromSlice([]float32{1, 2, 3, 0, 5, 6}, 2, 3))
			if err == nil || !strings.Contains(err.Error(), "watch_test.go:") ||
				!strings.Contains(err.Error(), "div") || !strings.Contains(err.Error(), "first to make NaN") {
				t.Errorf("got %v", err)
			}
		})
	}
	if _, err := galley.NewTrainer(galley.TrainerConfig{Device: device(t), Backend: device(t).Backend(),
		DetectNaN: true}); err == nil {
		t.Error("a backend detects NaN")
	}
}

// TestDoing: of a step that hangs, the device that does and the collective where the other waits are named.
func TestDoing(t *testing.T) {
	d := device(t)
	m := smallModel(t, d)
	hang, free := make(chan bool), make(chan bool)
	var held atomic.Bool
	tr, err := galley.NewTrainer(galley.TrainerConfig{Device: d, Params: m.Params(),
		Strategy: &galley.Strategy{DP: 2},
		Loss:     func(b []*op.Tensor) *op.Tensor { return m.Loss(b[0], b[0]) },
		Observe: func(n *galley.Node, _ time.Duration) {
			if n.Op().Name() == "embedding" && held.CompareAndSwap(false, true) {
				close(hang)
				<-free
			}
		}})
	if err != nil {
		t.Fatal(err)
	}
	defer tr.Close()
	if got := tr.RunningOps(); len(got) > 0 {
		t.Errorf("before a step: %v", got)
	}
	done := make(chan error)
	go func() {
		_, err := tr.Step(array.New(array.I32, 4, 8))
		done <- err
	}()
	<-hang
	var got []string
	for deadline := time.Now().Add(20 * time.Second); time.Now().Before(deadline); time.Sleep(time.Millisecond) {
		if got = tr.RunningOps(); len(got) == 2 && strings.Contains(strings.Join(got, " "), "all_reduce") {
			break
		}
	}
	text := strings.Join(got, "\n")
	for _, want := range []string{"device 0: ", "device 1: ", "embedding", "all_reduce"} {
		if !strings.Contains(text, want) {
			t.Errorf("%q is not in\n%s", want, text)
		}
	}
	close(free)
	if err := <-done; err != nil {
		t.Error(err)
	}
}
