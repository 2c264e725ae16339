package tapes

import (
	"fmt"
	"os"

	"github.com/galley-ml/galley/internal/ir"
	"github.com/galley-ml/galley/internal/offload"
	"github.com/galley-ml/galley/internal/step"
	"github.com/galley-ml/galley/op"
	"github.com/galley-ml/galley/optim"
	"github.com/galley-ml/galley/strategy"
)

// castBatch returns a batch in the compute dtype: with mixed precision its floats have the 16-bit dtype of
// the parameters.
func (h *planner) castBatch(batch []*op.Tensor) []*op.Tensor {
	list := make([]*op.Tensor, len(batch))
	for i, x := range batch {
		list[i] = h.castToCompute(x)
	}
	return list
}

// castToCompute casts a tensor, of the batch or captured by the loss, to the compute dtype.
func (h *planner) castToCompute(x *op.Tensor) *op.Tensor {
	return op.Cast(x, h.Computed(x.Type()).DType)
}

// offloadFractions returns what a step keeps outside of the devices' memory.
func offloadFractions(o strategy.Offload) step.Offload {
	return step.Offload{Weights: o.Parameters, Slots: o.Optimizer,
		Activations: o.Activations, Experts: o.Experts}
}

// offloadOf returns the store for offloaded tensors; nil means that they stay on the devices.
func offloadOf(s strategy.Strategy) (func(device int, types []ir.Type) (offload.Store, error), error) {
	dir := s.Offload.Dir
	switch {
	case !s.Offload.Some():
		return nil, nil
	case dir == "":
		return func(_ int, types []ir.Type) (offload.Store, error) { return offload.NewHost(types) }, nil
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("strategy: offload is %q: no directory can be made: %w", s.Offload.String(), err)
	}
	return func(_ int, types []ir.Type) (offload.Store, error) {
		return offload.NewDisk(offload.DiskConfig{Dir: dir, Types: types})
	}, nil
}

// lossScaleOf returns the initial loss scale: only f16 needs one.
func lossScaleOf(amp string) optim.LossScale {
	if amp == "f16" {
		return optim.NewLossScale()
	}
	return optim.LossScale{Scale: 1}
}
