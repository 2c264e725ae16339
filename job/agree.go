package job

import (
	"encoding/json"
	"fmt"

	"github.com/galley-ml/galley/data"
	"github.com/galley-ml/galley/strategy"
)

// Fits returns an error if the processes of a job cannot run a strategy's devices.
func (j *Job) Fits(s *strategy.Strategy) error {
	if j.Size() == 1 {
		return nil
	}
	if s == nil {
		return fmt.Errorf("a job of %d processes: want a strategy for %[1]d devices, or a multiple", j.Size())
	}
	full, err := s.WithDefaults()
	if err != nil {
		return err
	}
	if n := full.Devices(); n%j.Size() != 0 {
		return fmt.Errorf("strategy %q has %d devices for %d processes: want as many for each", s, n, j.Size())
	}
	return nil
}

// Same returns an error if a fact differs between processes, and says which fact and where.
func (j *Job) Same(facts []data.Fact) error {
	if j.Size() == 1 {
		return nil
	}
	text, err := json.Marshal(facts)
	if err != nil {
		return err
	}
	all, err := j.p.Exchange(programStream, text)
	if err != nil {
		return j.named(err)
	}
	var first []data.Fact
	for q, text := range all {
		var other []data.Fact
		if err := json.Unmarshal(text, &other); err != nil {
			return fmt.Errorf("%s: its facts cannot be read: %w", j.Name(q), err)
		}
		if q == 0 {
			first = other
		}
		if err := j.compare(q, other, first); err != nil {
			return err
		}
	}
	return nil
}

// compare says how a process differs from the first.
func (j *Job) compare(q int, facts, first []data.Fact) error {
	for i := range max(len(facts), len(first)) {
		switch {
		case i >= len(facts) || i >= len(first) || facts[i].Name != first[i].Name:
			return fmt.Errorf("%s: it is another program than %s's", j.Name(q), j.Name(0))
		case facts[i].Value != first[i].Value:
			return fmt.Errorf("%s: %s is %s, and %s on %s: want the same on all", j.Name(q), facts[i].Name,
				facts[i].Value, first[i].Value, j.Name(0))
		}
	}
	return nil
}

// Max returns the largest of the numbers (below 256) that the processes pass: a way to agree on something.
func (j *Job) Max(n int) (int, error) {
	if j.Size() == 1 {
		return n, nil
	}
	all, err := j.p.Exchange(programStream, []byte{byte(n)})
	if err != nil {
		return 0, j.named(err)
	}
	for _, other := range all {
		if len(other) == 1 {
			n = max(n, int(other[0]))
		}
	}
	return n, nil
}

// Broadcast sends the first process's text to all processes.
func (j *Job) Broadcast(text string) (string, error) {
	if j.Size() == 1 {
		return text, nil
	}
	all, err := j.p.Exchange(programStream, []byte(text))
	if err != nil {
		return "", j.named(err)
	}
	return string(all[0]), nil
}

// All gathers the texts of all processes, in rank order.
func (j *Job) All(text string) ([]string, error) {
	if j.Size() == 1 {
		return []string{text}, nil
	}
	all, err := j.p.Exchange(programStream, []byte(text))
	if err != nil {
		return nil, j.named(err)
	}
	list := make([]string, len(all))
	for i, t := range all {
		list[i] = string(t)
	}
	return list, nil
}
