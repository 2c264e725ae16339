package engine

import "slices"

// queue is the sequences that wait for pages.
type queue struct {
	list []*sequence
	// served is what each tenant with requests got, in tokens. A new one begins with the least of the others,
	// so that it neither waits for them nor goes before them for long.
	served map[string]float64
	active map[string]int
}

func newQueue() *queue { return &queue{served: map[string]float64{}, active: map[string]int{}} }

// enter notes that a tenant has a further sequence, leave that it has one less.
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

// next returns the sequence that begins next: by priority, then by what its tenant got, then by age.
// Sequences that wait for another's prompt are passed over.
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
