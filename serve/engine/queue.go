package engine

import "slices"

// queue has the sequences that wait to start.
type queue struct {
	list []*sequence
	// served is the number of tokens computed for each tenant with requests. A new tenant starts with the least
	// of the others, so that it neither waits for them nor precedes them for long.
	served map[string]float64
	active map[string]int
}

func newQueue() *queue { return &queue{served: map[string]float64{}, active: map[string]int{}} }

// enter counts a further sequence of a tenant, leave one less.
func (q *queue) enter(tenant string) {
	if q.active[tenant] == 0 {
		least, some := 0.0, false
		for other := range q.active {
			if s := q.served[other]; !some || s < least {
				least, some = s, true
			}
		}
		q.served[tenant] = least
	}
	q.active[tenant]++
}

func (q *queue) leave(tenant string) {
	if q.active[tenant]--; q.active[tenant] == 0 {
		delete(q.active, tenant)
		delete(q.served, tenant)
	}
}

func (q *queue) push(s *sequence) { q.list = append(q.list, s) }

// next returns the sequence that starts next: by priority, then by what its tenant was served, then by age.
// Sequences that wait for another's prompt are skipped.
func (q *queue) next() *sequence {
	var best *sequence
	for _, s := range q.list {
		if s.after != nil && !s.after.began && !s.after.ended {
			continue
		}
		if best == nil || q.before(s, best) {
			best = s
		}
	}
	return best
}

func (q *queue) before(a, b *sequence) bool {
	if a.Priority != b.Priority {
		return a.Priority > b.Priority
	}
	if x, y := q.served[a.Tenant], q.served[b.Tenant]; x != y {
		return x < y
	}
	return a.arrival < b.arrival
}

func (q *queue) remove(s *sequence) bool {
	i := slices.Index(q.list, s)
	if i < 0 {
		return false
	}
	q.list = slices.Delete(q.list, i, i+1)
	return true
}
