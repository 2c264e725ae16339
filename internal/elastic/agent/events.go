//go:build linux || darwin

package agent

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/galley-ml/galley/internal/elastic/epoch"
	"github.com/galley-ml/galley/internal/elastic/store"
)

// events holds the last events of this host.
type events struct {
	a    *Agent
	mu   sync.Mutex
	list []Event
}

// keptEvents is the number of events that are kept.
const keptEvents = 20

// record logs an event and shares it with the other hosts.
func (e *events) record(format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	e.mu.Lock()
	defer e.mu.Unlock()
	fmt.Fprintf(e.a.Stderr, "galley: elastic: %s: %s\n", e.a.Host, text)
	e.list = append(e.list, Event{time.Now().UTC(), text})
	e.list = e.list[max(0, len(e.list)-keptEvents):]
	value, err := json.Marshal(e.list)
	if err != nil {
		return
	}
	go func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		_, _ = e.a.Store.Commit(ctx, nil,
			[]store.Change{{Key: e.a.prefix + epoch.EventsKey(e.a.Host), Value: value}})
	}()
}

// hostNames returns the hosts of a plan.
func hostNames(p *epoch.Plan) string {
	var list []string
	for _, h := range p.Hosts {
		list = append(list, h.Host)
	}
	return strings.Join(list, ", ")
}

// fromText describes where an epoch resumes.
func fromText(p *epoch.Plan) string {
	if p.Step < 0 {
		return "without a snapshot"
	}
	return afterText(p.Step)
}

// spreadText describes the strategy, if the plan has one.
func spreadText(p *epoch.Plan) string {
	if p.Strategy == "" {
		return ""
	}
	return "; a step is spread by " + p.Strategy
}

// afterText describes when something was.
func afterText(step int64) string {
	if step <= 0 {
		return "before the first step"
	}
	return fmt.Sprintf("after step %d", step)
}
