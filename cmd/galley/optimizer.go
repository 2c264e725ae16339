package main

import (
	"fmt"
	"math"

	"github.com/galley-ml/galley"
	"github.com/galley-ml/galley/models"
	"github.com/galley-ml/galley/optim"
)

// optimizerFlags choose the optimizer, its schedule, and the loss terms besides the cross-entropy.
type optimizerFlags struct {
	Optimizer      string   `help:"adamw; lion, with half of its memory and a third to a tenth of its rate; adafactor, with hardly any; muon, which orthogonalizes the steps of matrices, at adamw's rate; or sgd with momentum." enum:"adamw,adafactor,lion,muon,sgd" default:"adamw"`
	LRSchedule     string   `name:"lr-schedule" help:"How --lr falls after its warm-up: cosine, linear, wsd, which stays and falls over the last fifth of the steps, restarts, four cosines in a row, inverse-sqrt or constant." enum:"cosine,linear,wsd,restarts,inverse-sqrt,constant" default:"cosine"`
	NoDecay        []string `help:"Patterns of names of parameters without weight decay: '*norm*'." placeholder:"PATTERN"`
	EMA            float64  `name:"ema" help:"Decay of an exponential moving average of the weights, such as 0.999; --save then writes the average. 0 is none." default:"0"`
	Capacity       float64  `name:"expert-capacity" help:"Capacity factor: the most tokens of an expert, as a multiple of its even share; more are dropped. 0 drops none." default:"0"`
	LabelSmoothing float64  `help:"Part of a label's weight that is spread over the vocabulary." default:"0"`
	LogitZ         float64  `name:"logit-z" help:"Weight of the z-loss: the mean square of the logits' log-sum-exp." default:"0"`
	RouterBalance  float64  `help:"Weight of the auxiliary loss that balances the load of experts." default:"0"`
	RouterBatch    bool     `help:"Take --router-balance over a whole batch, as transformers does, in place of each sequence; micro-batches then cannot be cut."`
	PredictAhead   float64  `help:"Weight of the loss of multi-token prediction: the token after the next, by DeepSeek-V3's extra layer." default:"0"`
	RouterZ        float64  `name:"router-z" help:"Weight of the routers' z-loss: the mean square of their logits' log-sum-exp." default:"0"`
}

// validateOptimizer checks the flags as far as possible without a model.
func (f optimizerFlags) validateOptimizer() error {
	if err := between(0, math.Inf(1), map[string]float64{"expert-capacity": f.Capacity}); err != nil {
		return err
	}
	if !(f.EMA >= 0 && f.EMA < 1) {
		return fmt.Errorf("--ema=%v: want 0 to less than 1", f.EMA)
	}
	return nil
}

// learningRate returns the learning rate schedule of a run.
func (f optimizerFlags) learningRate(lr float64, steps int) optim.Schedule {
	warmup, final := steps/20, lr/10
	switch f.LRSchedule {
	case "linear":
		return optim.Linear{LR: lr, Final: final, Warmup: warmup, Steps: steps}
	case "wsd":
		return optim.WSD{LR: lr, Final: final, Warmup: warmup, Decay: steps / 5, Steps: steps}
	case "restarts":
		return optim.CosineRestarts{LR: lr, Final: final, Warmup: warmup, Period: max(1, (steps-warmup)/4)}
	case "inverse-sqrt":
		return optim.InverseSqrt{LR: lr, Warmup: warmup}
	case "constant":
		return optim.Constant{LR: lr, Warmup: warmup}
	}
	return optim.Cosine{LR: lr, Final: final, Warmup: warmup, Steps: steps}
}

// optimizer returns the optimizer of the flags, with parameter groups and moving averages.
func (f optimizerFlags) optimizer(decay float64) optim.Optimizer {
	o := f.plainOptimizer(decay)
	if len(f.NoDecay) > 0 {
		o = optim.Groups{Default: o, Groups: []optim.Group{{Params: f.NoDecay, Optimizer: f.plainOptimizer(0)}}}
	}
	if f.EMA > 0 {
		o = optim.Averaged{Optimizer: o, Decay: f.EMA}
	}
	return o
}

func (f optimizerFlags) plainOptimizer(decay float64) optim.Optimizer {
	adamW := optim.AdamW{Beta1: 0.9, Beta2: 0.95, WeightDecay: decay}
	switch f.Optimizer {
	case "adafactor":
		return optim.Adafactor{WeightDecay: decay}
	case "lion":
		return optim.Lion{WeightDecay: decay}
	case "muon":
		return optim.Muon{WeightDecay: decay, MatchAdamW: true, Rest: adamW}
	case "sgd":
		return optim.SGD{Momentum: 0.9, WeightDecay: decay}
	}
	return adamW
}

// ahead returns how many multi-token prediction layers are trained.
func (f optimizerFlags) ahead() int {
	if f.PredictAhead > 0 {
		return 1
	}
	return 0
}

// withLoss returns a model with the loss terms that the flags request.
func (f optimizerFlags) withLoss(m models.Model) (models.Model, error) {
	if f.Capacity > 0 {
		var err error
		if m, err = models.WithCapacity(m, f.Capacity); err != nil {
			return nil, fmt.Errorf("--expert-capacity=%v: %w", f.Capacity, err)
		}
	}
	c := f.losses()
	if c == (models.LossConfig{}) {
		return m, nil
	}
	return models.WithLoss(m, c)
}

func (f optimizerFlags) losses() models.LossConfig {
	return models.LossConfig{LabelSmoothing: f.LabelSmoothing, LogitZ: f.LogitZ, RouterBalance: f.RouterBalance,
		RouterZ: f.RouterZ, Ahead: f.PredictAhead, BySequence: f.RouterBalance != 0 && !f.RouterBatch}
}

// facts returns the loss settings, which checkpoints record.
func (f optimizerFlags) facts() []galley.Fact {
	text := "cross-entropy"
	if c := f.losses(); c != (models.LossConfig{}) {
		text = fmt.Sprintf("%+v", c)
	}
	if f.Capacity > 0 {
		text += fmt.Sprintf(", capacity %v", f.Capacity)
	}
	return []galley.Fact{{Name: "losses", Value: text}}
}
