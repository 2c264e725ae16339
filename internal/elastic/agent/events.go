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

// events is the last that happened to this host.
type events struct {
	a    *Agent
	mu   sync.Mutex
	list []Event
}

// keptEvents is how many are kept.
const keptEvents = 20

// tell reports what has happened, to the observer and to the others.
func (e *events) tell(format string, args ...any) {
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

// fromText returns where an epoch continues.
func fromText(p *epoch.Plan) string {
	if p.Step < 0 {
		return "without a snapshot"
	}
	return afterText(p.Step)
}

// spreadText says how a step is spread, where the plan does.
func spreadText(p *epoch.Plan) string {
	if p.Strategy == "" {
		return ""
	}
	return "; a step is spread by " + p.Strategy
}

// afterText says when something was.
func afterText(step int64) string {
	if step <= 0 {
		return "before the first step"
	}
	return fmt.Sprintf("after step %d", step)
}
