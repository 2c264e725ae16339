package bench

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/internal/cluster"
	"github.com/galley-ml/galley/internal/comm"
	"github.com/galley-ml/galley/job"
)

// Who takes part in a measurement.
const (
	OneHost = "processes of a host"
	Hosts   = "hosts"
	All     = "all processes"
)

// trial is a measurement that some processes make together while others wait, or make one of their own.
type trial struct {
	what    string
	between string
	groups  [][]int
	bytes   int
	runs    int
}

// Links measures messages and collectives between the processes of a job, by size: pairs alone and at once,
// collectives within hosts, between hosts and of all. All processes call it and get the same result.
func Links(j *job.Job) ([]cluster.Measurement, error) {
	w, err := j.Devices(j.Size())
	if err != nil {
		return nil, err
	}
	defer w.Close()
	var own []cluster.Measurement
	err = w.Run(context.Background(), func(_ context.Context, c comm.Comm) error {
		all, err := c.Group(nil)
		if err != nil {
			return err
		}
		for _, t := range trials(j.Hosts()) {
			seconds, err := t.run(c, all)
			if err != nil {
				return err
			}
			if len(seconds) > 0 {
				own = append(own, t.measured(seconds))
			}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return together(j, own)
}

// together returns the measurements of all processes.
func together(j *job.Job, own []cluster.Measurement) (list []cluster.Measurement, err error) {
	text, err := json.Marshal(own)
	if err != nil {
		return nil, err
	}
	all, err := j.All(string(text))
	if err != nil {
		return nil, err
	}
	for _, text := range all {
		var part []cluster.Measurement
		if err := json.Unmarshal([]byte(text), &part); err != nil {
			return nil, err
		}
		list = append(list, part...)
	}
	return list, nil
}

// pairsMost is the most pairs that are measured alone.
const pairsMost = 16

// trials returns the measurements between processes on the given hosts, in the same order everywhere.
func trials(hosts []string) (list []trial) {
	pairs := pairsOf(len(hosts))
	between := func(p []int) string {
		if hosts[p[0]] == hosts[p[1]] {
			return OneHost
		}
		return Hosts
	}
	for _, bytes := range []int{64, 64 << 10, 1 << 20, 16 << 20} {
		runs := max(5, min(100, 32<<20/bytes))
		for _, p := range pairs {
			list = append(list, trial{"message", between(p), [][]int{p}, bytes, runs})
		}
		if len(hosts) >= 4 { // simultaneously
			var side [][]int
			for i := 0; i+1 < len(hosts); i += 2 {
				side = append(side, []int{i, i + 1})
			}
			list = append(list, trial{"message", between(side[0]), side, bytes, runs})
		}
	}
	for _, g := range groupsOf(hosts) {
		for _, bytes := range []int{4 << 10, 1 << 20, 16 << 20} {
			for _, kind := range []cluster.Kind{cluster.AllReduce, cluster.AllGather, cluster.ReduceScatter,
				cluster.AllToAll} {
				list = append(list, trial{kind.String(), g.between, g.groups, bytes, max(5, min(50, 32<<20/bytes))})
			}
		}
	}
	return list
}

// pairsOf returns all pairs of n processes, or some of all distances.
func pairsOf(n int) (pairs [][]int) {
	for apart := 1; apart < n; apart++ {
		for i := 0; i+apart < n; i++ {
			pairs = append(pairs, []int{i, i + apart})
		}
	}
	if len(pairs) <= pairsMost {
		return pairs
	}
	few := make([][]int, pairsMost)
	for i := range few {
		few[i] = pairs[i*(len(pairs)-1)/(pairsMost-1)]
	}
	return few
}

// members is groups that do the same at the same time.
type members struct {
	between string
	groups  [][]int
}

// groupsOf returns the groups whose collectives are measured.
func groupsOf(hosts []string) (list []members) {
	byHost := map[string][]int{}
	var names []string
	for i, h := range hosts {
		if byHost[h] == nil {
			names = append(names, h)
		}
		byHost[h] = append(byHost[h], i)
	}
	var within [][]int
	var firsts []int
	for _, h := range names {
		firsts = append(firsts, byHost[h][0])
		if len(byHost[h]) > 1 {
			within = append(within, byHost[h])
		}
	}
	if len(within) > 0 {
		list = append(list, members{OneHost, within})
	}
	if len(firsts) > 1 {
		list = append(list, members{Hosts, [][]int{firsts}})
		if len(within) > 0 {
			every := make([]int, len(hosts))
			for i := range every {
				every[i] = i
			}
			list = append(list, members{All, [][]int{every}})
		}
	}
	return list
}

// run runs the trial and returns the times of the first member of the first group.
func (t trial) run(c comm.Comm, all *comm.Group) (seconds []float64, err error) {
	at := slices.IndexFunc(t.groups, func(g []int) bool { return slices.Contains(g, c.ID()) })
	if at >= 0 {
		g, err := c.Group(t.groups[at])
		if err != nil {
			return nil, err
		}
		call, err := t.call(g)
		if err != nil {
			return nil, err
		}
		for i := range t.runs + 2 { // the first ones are warm-up
			if err := g.Barrier(); err != nil {
				return nil, err
			}
			start := time.Now()
			if err := call(); err != nil {
				return nil, err
			}
			if i >= 2 && at == 0 && g.Pos() == 0 {
				seconds = append(seconds, time.Since(start).Seconds())
			}
		}
	}
	return seconds, all.Barrier()
}

// call returns the function to time, for one member.
func (t trial) call(g *comm.Group) (func() error, error) {
	n := g.Size()
	elements := max(1, t.bytes/4)
	if t.what != "message" {
		elements = max(n, elements/n*n)
	}
	x, y := array.New(array.F32, elements), array.New(array.F32, elements)
	part := array.New(array.F32, elements/n)
	var err error
	switch t.what {
	case "message": // there and back
		return func() error {
			if g.Pos() == 0 {
				if err := g.Send(x, 1, 0); err != nil {
					return err
				}
				_, err = g.Recv(y, 1, 0)
				return err
			}
			if _, err := g.Recv(y, 0, 0); err != nil {
				return err
			}
			return g.Send(x, 0, 0)
		}, nil
	case cluster.AllReduce.String():
		return func() error { _, err = g.AllReduce(y, x, comm.Sum); return err }, nil
	case cluster.AllGather.String():
		return func() error { _, err = g.AllGather(y, part, 0); return err }, nil
	case cluster.ReduceScatter.String():
		return func() error { _, err = g.ReduceScatter(part, x, comm.Sum, 0, nil); return err }, nil
	case cluster.AllToAll.String():
		return func() error { _, err = g.AllToAll(y, x, 0, nil, 0); return err }, nil
	}
	return nil, fmt.Errorf("no collective %q is measured", t.what)
}

// measured summarizes the times of a trial.
func (t trial) measured(seconds []float64) cluster.Measurement {
	slices.Sort(seconds)
	n := len(seconds)
	m := cluster.Measurement{
		What:    t.what,
		Between: t.between,
		Members: len(t.groups[0]),
		Bytes:   float64(t.bytes),
		Shared:  len(t.groups) > 1,
		Seconds: seconds[n/2],
	}
	m.Spread = round((seconds[n*3/4] - seconds[n/4]) / 2 / m.Seconds)
	if t.what == "message" {
		m.Seconds /= 2
	}
	m.Seconds = round(m.Seconds)
	return m
}
