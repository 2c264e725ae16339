package planfile

import (
	"errors"
	"fmt"

	"github.com/galley-ml/galley/internal/cluster"
)

// check reports what is wrong with a file that was read.
func (f *File) check() error {
	if err := f.upgrade(); err != nil {
		return err
	}
	if err := f.Workload.Check(); err != nil {
		return err
	}
	c, err := f.Hardware()
	if err != nil {
		return err
	}
	if want := KeyOf(f.Program, f.Workload, c); f.Key != want {
		return fmt.Errorf("key %s does not go with the workload and cluster in the file, whose key is %s: "+
			"it was edited after it was priced: make a new one with galley plan", f.Key, want)
	}
	if err := f.checkStrategy(c); err != nil {
		return err
	}
	return f.checkMapping(c)
}

// upgrade makes a file of version 1 one of this version.
func (f *File) upgrade() error {
	switch f.Version {
	case Version:
		return nil
	case 1:
		if f.Strategy.MicroBatch != 0 {
			return errors.New("strategy: micro_batch needs galley_plan 2: this file has version 1, where micro " +
				"is the size")
		}
		f.Version, f.Strategy.MicroBatch, f.Strategy.Micro = Version, max(1, f.Strategy.Micro), 0
		return nil
	}
	return fmt.Errorf("galley_plan: got version %d, want %d: make a new one with galley plan", f.Version,
		Version)
}

func (f *File) checkStrategy(c *cluster.Cluster) error {
	s := f.Strategy.Filled()
	used, err := f.Ordered() // a mixed cluster may leave devices idle
	if err != nil {
		return fmt.Errorf("layout: %w", err)
	}
	if n := s.Devices(); n != used.Size() || n > c.Size() {
		return fmt.Errorf("strategy: %s takes %d devices, the cluster has %d", s.Line(), n, used.Size())
	}
	if s.Micros(f.Workload.Batch) == 0 {
		return fmt.Errorf("strategy: %s: %w", s.Line(), s.Uneven(f.Workload.Batch))
	}
	if want := s.PP * s.VPP; len(f.Stages) != want {
		return fmt.Errorf("stages: got %d, want %d for pp=%d vpp=%d", len(f.Stages), want, s.PP, s.VPP)
	}
	if n := len(f.Predicted.Devices); n != 0 && n != s.Devices() {
		return fmt.Errorf("predicted: devices_bytes has %d numbers, the strategy %d devices", n, s.Devices())
	}
	sum := 0
	for i, n := range f.Stages {
		if n < 0 {
			return fmt.Errorf("stages: stage %d has %d layers", i, n)
		}
		sum += n
	}
	if sum != f.Workload.Model.Layers {
		return fmt.Errorf("stages: they have %d layers, the model %d", sum, f.Workload.Model.Layers)
	}
	return nil
}

func (f *File) checkMapping(c *cluster.Cluster) error {
	if len(f.Mapping) == 0 {
		return nil
	}
	if len(f.Mapping) != f.Strategy.Devices() {
		return fmt.Errorf("mapping: got %d ranks, want %d", len(f.Mapping), f.Strategy.Devices())
	}
	used := make([]bool, c.Size())
	for r, d := range f.Mapping {
		if d < 0 || d >= len(used) || used[d] {
			return fmt.Errorf("mapping: rank %d runs on device %d, which is not there or taken", r, d)
		}
		used[d] = true
	}
	return nil
}
