package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/galley-ml/galley/internal/elastic/agent"
	"github.com/galley-ml/galley/internal/elastic/epoch"
	"github.com/galley-ml/galley/internal/elastic/store"
)

// jobFlags choose an elastic job.
type jobFlags struct {
	Etcd   string `help:"etcd of the job's hosts; without it an agent of this machine is asked." placeholder:"URL"`
	Job    string `help:"Name of the job; without --etcd that of the one agent here." placeholder:"NAME"`
	Memory string `help:"Directory in which agents of this machine keep their memory." default:"/dev/shm" placeholder:"DIR"`
}

// askFor is how long to wait for an answer of an agent or etcd.
const askFor = 5 * time.Second

// card returns the agent on this machine that the flags choose.
func (f *jobFlags) card(ctx context.Context) (agent.Card, error) {
	var names []string
	var found []agent.Card
	for _, c := range agent.Cards(f.Memory) {
		if f.Job != "" && c.Job != f.Job {
			continue
		}
		if _, err := c.Keys(ctx); err == nil {
			found, names = append(found, c), append(names, c.Job)
		}
	}
	slices.Sort(names)
	switch names = slices.Compact(names); {
	case len(found) == 0 && f.Job != "":
		return agent.Card{}, fmt.Errorf("no agent of job %s answers on this machine: --etcd URL asks etcd", f.Job)
	case len(found) == 0:
		return agent.Card{}, fmt.Errorf("no agent of an elastic job answers on this machine: --etcd URL --job " +
			"NAME asks etcd")
	case len(names) > 1:
		return agent.Card{}, fmt.Errorf("there are jobs %s here: say which with --job", strings.Join(names, ", "))
	}
	f.Job = names[0]
	return found[0], nil
}

// statusCmd prints the status of an elastic job.
type statusCmd struct {
	jobFlags
	JSON bool `name:"json" help:"Print JSON."`
}

// Help returns the text that galley status --help adds.
func (statusCmd) Help() string {
	return `Examples:
  galley status                                     of the job that has an agent on this machine
  galley status --etcd http://10.0.0.1:2379 --job a of any job of that etcd
The exit code is 0 while the job runs or where it has ended well, else that of the job.`
}

func (c *statusCmd) Run() error {
	ctx, cancel := context.WithTimeout(context.Background(), askFor)
	defer cancel()
	entries, err := c.keys(ctx)
	if err != nil {
		return err
	}
	s, err := readStatus(entries, c.Job)
	if err != nil {
		return err
	}
	if c.JSON {
		err = json.NewEncoder(os.Stdout).Encode(s)
	} else {
		s.print()
	}
	if err == nil && s.View.Done != nil && s.View.Done.Code != 0 {
		return exitError(s.View.Done.Code)
	}
	return err
}

// keys returns all keys that the job has published.
func (f *jobFlags) keys(ctx context.Context) ([]store.Entry, error) {
	if f.Etcd == "" {
		card, err := f.card(ctx)
		if err != nil {
			return nil, err
		}
		return card.Keys(ctx)
	}
	s, err := openEtcd(ctx, f.Etcd)
	if err != nil {
		return nil, err
	}
	defer s.Close()
	if f.Job == "" {
		f.Job = "job"
	}
	entries, err := s.List(ctx, agent.Prefix(f.Job))
	if err == nil && len(entries) == 0 {
		err = fmt.Errorf("etcd knows of no job %s: --job says another", f.Job)
	}
	return entries, err
}

// status is the published state of an elastic job.
type status struct {
	Job      string
	View     *epoch.View
	Progress *agent.Progress          `json:",omitempty"`
	Events   map[string][]agent.Event `json:",omitempty"`
}

func readStatus(entries []store.Entry, job string) (*status, error) {
	v, err := epoch.Read(entries, agent.Prefix(job))
	if err != nil {
		return nil, err
	}
	s := &status{Job: job, View: v, Events: map[string][]agent.Event{}}
	for _, e := range entries {
		key := strings.TrimPrefix(e.Key, agent.Prefix(job))
		switch {
		case key == epoch.ProgressKey():
			err = json.Unmarshal(e.Value, &s.Progress)
		case strings.HasPrefix(key, epoch.EventsKey("")):
			var list []agent.Event
			err = json.Unmarshal(e.Value, &list)
			s.Events[strings.TrimPrefix(key, epoch.EventsKey(""))] = list
		}
		if err != nil {
			return nil, fmt.Errorf("key %s: %w", e.Key, err)
		}
	}
	return s, nil
}

// print prints the status.
func (s *status) print() {
	v := s.View
	switch {
	case v.Done != nil && v.Done.Code != 0:
		fmt.Printf("job %s: ended with exit code %d: %s\n", s.Job, v.Done.Code, v.Done.Text)
	case v.Done != nil:
		fmt.Printf("job %s: finished\n", s.Job)
	case v.Plan == nil:
		fmt.Printf("job %s: it has not begun\n", s.Job)
	default:
		fmt.Printf("job %s: epoch %d, %d processes on %d hosts: %s\n", s.Job, v.Epoch, v.Plan.Size(),
			len(v.Plan.Hosts),
			v.Plan.Why)
	}
	if p := s.Progress; p != nil {
		rate := 0.0
		if p.Seconds > 0 {
			rate = 1 / p.Seconds
		}
		fmt.Printf("step %d, loss %s, %.2f steps/s, %s, %s\n", p.Step, p.Loss, rate, p.Strategy,
			p.Time.Local().Format(time.TimeOnly))
	}
	s.printHosts()
	s.printEvents()
}

// printHosts prints the hosts and their roles.
func (s *status) printHosts() {
	for _, m := range sortedMembers(s.View) {
		role := "waits"
		if p := s.View.Plan.Of(m.Host, m.ID); p != nil {
			role = fmt.Sprintf("processes %d to %d", p.First, p.First+p.Processes-1)
		}
		if m.ID == s.View.Leader {
			role += ", leads"
		}
		if m.Leaving || s.View.Drained[m.Host] {
			role += ", leaves"
		}
		fmt.Printf("  %-16s %s, %d cores, %.0f GiB, %s\n", m.Host, role, m.Cores, float64(m.Memory)/(1<<30),
			m.Address)
	}
}

// sortedMembers returns the hosts by name.
func sortedMembers(v *epoch.View) []epoch.Member {
	var list []epoch.Member
	for _, m := range v.Members {
		list = append(list, m)
	}
	slices.SortFunc(list, func(a, b epoch.Member) int { return strings.Compare(a.Host, b.Host) })
	return list
}

// shownEvents is the number of events that are printed.
const shownEvents = 10

// printEvents prints the last events of all hosts.
func (s *status) printEvents() {
	type event struct {
		agent.Event
		host string
	}
	var list []event
	for host, events := range s.Events {
		for _, e := range events {
			list = append(list, event{e, host})
		}
	}
	slices.SortFunc(list, func(a, b event) int { return a.Time.Compare(b.Time) })
	for _, e := range list[max(0, len(list)-shownEvents):] {
		fmt.Printf("  %s %s: %s\n", e.Time.Local().Format(time.TimeOnly), e.host, e.Text)
	}
}

// drainCmd makes a host leave its job.
type drainCmd struct {
	jobFlags
	Host string `arg:"" help:"The host's name in the job."`
}

// Help returns the text that galley drain --help adds.
func (drainCmd) Help() string {
	return `Example:
  galley drain node7        node7 finishes its step, hands on what it holds and leaves; the others go on`
}

func (c *drainCmd) Run() error {
	ctx, cancel := context.WithTimeout(context.Background(), askFor)
	defer cancel()
	if c.Etcd == "" {
		card, err := c.card(ctx)
		if err != nil {
			return err
		}
		return card.Drain(ctx, c.Host)
	}
	s, err := openEtcd(ctx, c.Etcd)
	if err != nil {
		return err
	}
	defer s.Close()
	if c.Job == "" {
		c.Job = "job"
	}
	return agent.Drain(ctx, s, c.Job, c.Host)
}
