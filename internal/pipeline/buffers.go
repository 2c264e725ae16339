package pipeline

import "fmt"

// Buffers returns the smallest capacity, one message or more, of each link between two ranks with which the
// lowered schedule does not deadlock, if a send blocks while its link is full. Without a limit sends never
// block, and a schedule that passes Check never deadlocks.
func Buffers(s *Schedule) (int, error) {
	if _, err := Check(s); err != nil {
		return 0, err
	}
	if !s.Lowered() && crossings(s) {
		return 0, fmt.Errorf("schedule %s: not lowered: it sends nothing", s.Name)
	}
	c := checker{flow: flow{s, true}}
	links := c.links()
	most := 1
	for _, l := range links {
		most = max(most, len(l.sends))
	}
	low, high := 1, most
	for low < high {
		mid := (low + high) / 2
		if completes(s, links, mid) {
			high = mid
		} else {
			low = mid + 1
		}
	}
	return low, nil
}

func crossings(s *Schedule) bool {
	for i := range s.Stages - 1 {
		if s.Place[i] != s.Place[i+1] {
			return true
		}
	}
	return false
}

// completes reports whether the schedule runs to its end if every link holds size messages. That depends
// neither on times nor on the order of ranks.
func completes(s *Schedule, links []channel, size int) bool {
	held := make([]int, len(links))
	leaving := make([][]int, len(s.Ranks)) // of each rank, the links that leave it
	for i, l := range links {
		leaving[l.from] = append(leaving[l.from], i)
	}
	find := func(from, to int) *int {
		for _, i := range leaving[from] {
			if links[i].to == to {
				return &held[i]
			}
		}
		return nil
	}
	cursor := make([]int, len(s.Ranks))
	for moved := true; moved; {
		moved = false
		for r, actions := range s.Ranks {
			for cursor[r] < len(actions) {
				a := actions[cursor[r]]
				if a.Kind.Sends() {
					n := find(r, s.Place[a.Peer()])
					if *n == size {
						break
					}
					*n++
				} else if a.Kind.Receives() {
					n := find(s.Place[a.Peer()], r)
					if *n == 0 {
						break
					}
					*n--
				}
				cursor[r]++
				moved = true
			}
		}
	}
	for r, actions := range s.Ranks {
		if cursor[r] < len(actions) {
			return false
		}
	}
	return true
}
