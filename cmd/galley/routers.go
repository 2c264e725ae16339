package main

import (
	"context"
	"fmt"
	"math"
	"slices"

	"github.com/galley-ml/galley"
	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/fit"
	"github.com/galley-ml/galley/models"
	"github.com/galley-ml/galley/op"
)

// routerStats returns how a model's routers share out the tokens of a batch; nil if it has no routers.
func routerStats(
	t *galley.Trainer,
	m models.Model,
	ids array.Array,
	capacity float64,
) ([]models.RouterStat, error) {
	c := m.Config()
	if c.Experts == 0 {
		return nil, nil
	}
	pass := t.NewForward(func(batch []*op.Tensor) []*op.Tensor { return models.RouterLoads(m, batch[0]) })
	loads, err := pass.Run(context.Background(), ids)
	if err != nil {
		pass.Close()
		return nil, err
	}
	return models.RouterStats(loads, ids.Shape()[1]*c.ExpertsPerToken, capacity), pass.Close()
}

// routerPass returns a forward pass whose results are the loads of all routers, followed by their
// balance.
func routerPass(t *galley.Trainer, m models.Model) *galley.Forward {
	return t.NewForward(func(batch []*op.Tensor) []*op.Tensor {
		loads, balance := models.RouterBalance(m, batch[0])
		return append(loads, balance)
	})
}

// checkRouters returns an error if --log-routers would have no effect.
func (l *loop) checkRouters() error {
	why := ""
	switch {
	case l.LogRouters == 0:
		return nil
	case l.LogRouters < 0:
		why = "want 0 or more steps"
	case l.model.Config().Experts == 0:
		why = l.model.Config().Family + " has no experts: leave it out"
	case len(l.Log) == 0:
		why = "it is written to --log FILE: want one"
	case l.b != nil:
		why = "routers on a --backend are not told: leave it out"
	default:
		return nil
	}
	return fmt.Errorf("--log-routers=%d: %s", l.LogRouters, why)
}

// ofStep returns how routers share out a step's tokens, computed before the step changes their weights.
func (l *loop) ofStep(batch []array.Array) (*fit.RouterLog, error) {
	c := l.model.Config()
	if l.LogRouters == 0 || l.trainer.Steps()%l.LogRouters != 0 || c.Experts == 0 {
		return nil, nil
	}
	if l.routers == nil {
		l.routers = routerPass(l.trainer, l.model)
	}
	out, err := l.routers.Run(context.Background(), batch[0])
	if err != nil {
		return nil, fmt.Errorf("statistics of routers: %w", err)
	}
	last := len(out) - 1
	log := routerLog(models.RouterStats(out[:last], batch[0].Shape()[1]*c.ExpertsPerToken, l.Capacity))
	log.Balance = meanOf(out[last])
	return log, nil
}

// meanOf returns the mean of an array.
func meanOf(a array.Array) float64 {
	sum := 0.0
	for i := range a.Len() {
		sum += a.At(i)
	}
	return sum / float64(a.Len())
}

// routerLine returns a router's numbers as a readable line.
func routerLine(i, of int, s models.RouterStat) string {
	n := float64(len(s.Loads))
	line := fmt.Sprintf(
		"router %d of %d: of %d experts the busiest has %.2f times its even share, the idlest %.2f times, "+
			"entropy %.3f",
		i+1,
		of,
		len(s.Loads),
		slices.Max(s.Loads)*n,
		slices.Min(s.Loads)*n,
		s.Entropy,
	)
	if s.Dropped > 0 {
		line += fmt.Sprintf(", %.1f%% dropped", 100*s.Dropped)
	}
	return line
}

// routerLog returns the numbers of all routers together, for the run's log.
func routerLog(stats []models.RouterStat) *fit.RouterLog {
	if len(stats) == 0 {
		return nil
	}
	l := &fit.RouterLog{Idlest: math.Inf(1), Balance: math.NaN()}
	for _, s := range stats {
		n, all := float64(len(s.Loads)), float64(len(stats))
		l.Busiest, l.Idlest = max(l.Busiest, slices.Max(s.Loads)*n), min(l.Idlest, slices.Min(s.Loads)*n)
		l.Entropy += s.Entropy / all
		l.Dropped += s.Dropped / all
		l.Loads = append(l.Loads, s.Loads)
	}
	return l
}

// measureRouters prints and returns how routers share out the tokens of a batch of held-out text.
func (l *loop) measureRouters() (*fit.RouterLog, error) {
	if l.model.Config().Experts == 0 || l.b != nil || l.loss != nil || l.eval == nil {
		return nil, nil
	}
	stats, err := routerStats(l.trainer, l.model, l.eval.From(0)[0], l.Capacity)
	if err != nil {
		return nil, fmt.Errorf("statistics of routers: %w", err)
	}
	log := routerLog(stats)
	line := fmt.Sprintf(
		"routers: the busiest expert has %.2f times its even share, the idlest %.2f times, entropy %.3f",
		log.Busiest,
		log.Idlest,
		log.Entropy,
	)
	if l.Capacity > 0 {
		line += fmt.Sprintf(", %.1f%% dropped", 100*log.Dropped)
	}
	fmt.Println(line)
	return log, nil
}
