package main

import (
	"fmt"
	"sync"

	"github.com/galley-ml/galley"
	"github.com/galley-ml/galley/internal/elastic/epoch"
	"github.com/galley-ml/galley/internal/forecast"
	"github.com/galley-ml/galley/internal/strict"
	"github.com/galley-ml/galley/models"
)

// hostPrices returns the function epoch.Config.Price: the planner's estimate of a step on the hosts of an
// elastic job. The planner runs once for equal hosts, in the background, so that no caller waits for it.
func hostPrices(c *trainCmd, given *galley.Strategy) func([]epoch.Member) (float64, bool) {
	run := sync.OnceValues(c.priced)
	var mu sync.Mutex
	known, asked := map[string]float64{}, map[string]bool{}
	return func(members []epoch.Member) (float64, bool) {
		hosts := make([]forecast.Host, len(members))
		for i, m := range members {
			hosts[i] = forecast.Host{Machine: m.Machine, Processes: m.Processes, Cores: m.Cores}
		}
		key := fmt.Sprint(hosts)
		mu.Lock()
		defer mu.Unlock()
		if seconds, ok := known[key]; ok || asked[key] {
			return seconds, ok
		}
		asked[key] = true
		go func() {
			r, err := run()
			seconds := 0.0
			if err == nil {
				if seconds, err = forecast.OnHosts(r, hosts, given); err != nil {
					seconds = 0
				}
			}
			mu.Lock()
			defer mu.Unlock()
			known[key] = seconds
		}()
		return 0, false
	}
}

// hostStrategies returns a function that gives the strategy for the hosts of an epoch, as text: the
// command's, or else the planner's, which runs once for equal hosts.
func hostStrategies(c *trainCmd, given *galley.Strategy) func([]epoch.Member) (string, error) {
	run := sync.OnceValues(c.priced)
	type answer struct {
		text string
		err  error
	}
	known := map[string]answer{}
	return func(members []epoch.Member) (string, error) {
		if given != nil {
			return given.Line(), nil
		}
		if c.Plan != "" || c.probes() {
			return "", nil
		}
		hosts := machines(members)
		key := fmt.Sprint(hosts)
		a, ok := known[key]
		if !ok {
			a.text, a.err = c.planned(run, hosts, epoch.Processes(members))
			known[key] = a
		}
		return a.text, a.err
	}
}

// planned runs the planner for n processes on hosts and returns its strategy as text.
func (c *trainCmd) planned(run func() (forecast.Run, error), hosts []forecast.Host, n int) (string, error) {
	r, err := run()
	if err == nil && c.Cluster != "" {
		r.Cluster, err = strict.ReadFile(c.Cluster, strict.Config)
	}
	if err != nil {
		return "", err
	}
	if r.Hosts = hosts; r.Devices == 0 {
		r.Devices = n
	}
	p, err := forecast.Auto(r)
	if err != nil {
		return "", err
	}
	return p.Strategy.Line(), nil
}

// machines returns the machines that the members' processes run on: members of one machine share its cores.
func machines(members []epoch.Member) (list []forecast.Host) {
	for _, m := range members {
		if n := len(list); n == 0 || list[n-1].Machine != m.Machine {
			list = append(list, forecast.Host{Machine: m.Machine})
		}
		h := &list[len(list)-1]
		h.Processes, h.Cores = h.Processes+m.Processes, max(h.Cores, m.Cores)
	}
	return list
}

// priced returns the run as the planner's input.
func (c *trainCmd) priced() (r forecast.Run, err error) {
	t := &training{trainCmd: c}
	r = forecast.Run{Batch: c.Batch, Seq: c.Seq, Devices: c.Devices, AMP: c.AMP}
	if c.Calibration != "" {
		if r.Calibration, err = strict.ReadFile(c.Calibration, strict.Config); err != nil {
			return r, err
		}
	}
	if c.Model != "" {
		r.Model, err = models.ReadConfig(c.Model)
		return r, err
	}
	if t.tokenizer, err = openTokenizer(c.Tokenizer, ""); err != nil {
		return r, err
	}
	r.Model = t.newConfig()
	return r, nil
}
