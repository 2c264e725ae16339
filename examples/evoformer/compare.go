package main

import (
	"fmt"
	"time"

	"github.com/galley-ml/galley"
	"github.com/galley-ml/galley/distribute"
	"github.com/galley-ml/galley/dtensor"
	"github.com/galley-ml/galley/mesh"
)

// large is a block whose branches have some milliseconds of work.
var large = Config{MSA: 64, Pair: 48, Heads: 4, Dim: 16, Triangle: 32, Outer: 8, Expand: 4}

// compare prints what a step of one sample takes on a device of its own, as in data parallelism with a sample
// a device, and on two: with the branches that annotations name, and with those that the planner finds.
func compare() error {
	host := galley.CPU(galley.Config{})
	defer host.Close()
	w, err := dtensor.NewWorld(host, 2)
	if err != nil {
		return err
	}
	defer w.Close()
	first, err := mesh.Parse("x=1")
	if err != nil {
		return err
	}
	second, err := mesh.Parse("x=1@[1]")
	if err != nil {
		return err
	}
	at := func(second *mesh.Mesh, prices *distribute.Prices) *branches {
		return &branches{
			world:     w,
			first:     first,
			second:    second,
			config:    large,
			sequences: 32,
			residues:  48,
			planned:   prices,
		}
	}
	prices := distribute.Prices{
		Flop:    1 / 30e9,
		Memory:  1 / 10e9,
		Default: distribute.Link{Alpha: 40e-6, Beta: 1 / 5e9},
	}
	ways := []*branches{at(first, nil), at(second, nil), at(second, &prices)}
	steps, err := compileAll(ways)
	if err != nil {
		return err
	}
	// Prices are of some machine: one number makes them this one's.
	best, err := fastest(steps[:1])
	if err != nil {
		return err
	}
	scale := best[0].Seconds() / ways[2].plan.Serial
	prices.Flop, prices.Memory = prices.Flop*scale, prices.Memory*scale
	if steps, err = compileAll(ways); err != nil {
		return err
	}
	if best, err = fastest(steps); err != nil {
		return err
	}
	p := ways[2].plan
	fmt.Printf(
		"a sample a device (data parallel)  predicted %6.2f ms  measured %6.2f ms\n",
		1e3*p.Serial,
		ms(best[0]),
	)
	fmt.Printf("two branches, by annotations                            measured %6.2f ms\n", ms(best[1]))
	fmt.Printf(
		"two branches, by the planner       predicted %6.2f ms  measured %6.2f ms\n",
		1e3*p.Seconds,
		ms(best[2]),
	)
	fmt.Println(p)
	return nil
}

func ms(d time.Duration) float64 { return 1e3 * d.Seconds() }

// compileAll returns a function for each way that takes a step.
func compileAll(ways []*branches) ([]func() error, error) {
	var list []func() error
	for _, b := range ways {
		e, state, err := b.compile()
		if err != nil {
			return nil, err
		}
		for i, x := range state {
			if state[i], err = e.Place(i, x); err != nil {
				return nil, err
			}
		}
		list = append(list, func() error {
			out, err := e.RunSharded(state)
			if err == nil {
				_, err = galley.Read(out[0])
			}
			return err
		})
	}
	return list, nil
}

// fastest returns the shortest time of each of several steps, taken in turn.
func fastest(steps []func() error) ([]time.Duration, error) {
	best := make([]time.Duration, len(steps))
	for round := range 12 {
		for i, step := range steps {
			start := time.Now()
			if err := step(); err != nil {
				return nil, err
			}
			if took := time.Since(start); round == 0 || took < best[i] {
				best[i] = took
			}
		}
	}
	return best, nil
}
