package main

import (
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/galley-ml/galley"
	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/nn"
	"github.com/galley-ml/galley/op"
)

// lines is a writer that hands on what is written.
type lines chan string

func (l lines) Write(p []byte) (int, error) {
	l <- string(p)
	return len(p), nil
}

// TestWatchdog: of a step that hangs it is said, once, which device is at which op.
func TestWatchdog(t *testing.T) {
	d := galley.CPU(galley.Config{Threads: 1})
	defer d.Close()
	in := nn.NewInit(nn.Config{Scope: d.NewSession()})
	w := in.Param("w", array.Shape{3}, nn.Constant(1))
	free := make(chan bool)
	var held atomic.Bool
	trainer, err := galley.NewTrainer(galley.TrainerConfig{Device: d, Params: in.Params(),
		Strategy: &galley.Strategy{DP: 2},
		Loss:     func(b []*op.Tensor) *op.Tensor { return op.Mean(op.Tanh(op.Mul(b[0], w.Value))) },
		Observe: func(n *galley.Node, _ time.Duration) {
			if n.Op().Name() == "tanh" && held.CompareAndSwap(false, true) {
				<-free
			}
		}})
	if err != nil {
		t.Fatal(err)
	}
	defer trainer.Close()
	l, out := &loop{trainer: trainer}, make(lines, 10)
	stop := l.watch(20*time.Millisecond, out)
	done := make(chan error)
	go func() {
		_, err := trainer.Step(array.New(array.F32, 4, 3))
		done <- err
	}()
	got := <-out
	if !strings.Contains(got, "step 1 has not moved") || !strings.Contains(got, "tanh at watchdog_test.go:") ||
		strings.Count(got, "device ") != 2 {
		t.Errorf("got %q", got)
	}
	close(free)
	if err := <-done; err != nil {
		t.Error(err)
	}
	stop()
}
