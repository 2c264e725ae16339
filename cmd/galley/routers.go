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

// routerStats is how the routers of a model share out the tokens of a batch; nil where it has none.
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

// routerLine is a router's numbers as people read them.
func routerLine(i, of int, s models.RouterStat) string {
	n := float64(len(s.Loads))
	line := fmt.Sprintf(
		"router %d of %d: of %d experts the busiest has %.2f times its even share, the idlest %.2f times, entropy %.3f",
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

// routerLog is the numbers of all routers together.
func routerLog(stats []models.RouterStat) *fit.RouterLog {
	if len(stats) == 0 {
		return nil
	}
	l := &fit.RouterLog{Idlest: math.Inf(1)}
	for _, s := range stats {
		n, all := float64(len(s.Loads)), float64(len(stats))
		l.Busiest, l.Idlest = max(l.Busiest, slices.Max(s.Loads)*n), min(l.Idlest, slices.Min(s.Loads)*n)
		l.Entropy += s.Entropy / all
		l.Dropped += s.Dropped / all
		l.Loads = append(l.Loads, s.Loads)
	}
	return l
}

// tellRouters says how experts share the work of a batch of held-out text.
func (l *loop) tellRouters() (*fit.RouterLog, error) {
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
