package step

import (
	"fmt"
	"hash/fnv"
	"io"
	"math"

	"github.com/galley-ml/galley/internal/ir"
	"github.com/galley-ml/galley/op"
)

// Pricer returns costs in seconds: of a node on a device with a number of threads (of a collective, one
// member's part), of delivering a message, and of copying bytes.
type Pricer interface {
	Node(n *ir.Node, threads int) float64
	Deliver(bytes float64) float64
	Copy(bytes float64) float64
}

// Machine describes the cores that in-process devices share.
type Machine struct {
	// Cores is the number of devices that can compute at the same time, Crowd the slowdown of each when all
	// cores are busy.
	Cores int
	Crowd float64
	// Threads is the number of threads that all devices share; each has at least one.
	Threads int
	// Latency is the time in seconds that an idle core takes to start on new work.
	Latency float64
	// Spread is the relative variation of an op's time: devices with equal work do not reach a collective at
	// the same time.
	Spread float64
	// Slice is the scheduler's time slice in seconds; 0 means that of Go, 10 ms.
	Slice  float64
	Prices Pricer
	// Watch, if set, receives the simulated timeline of the devices.
	Watch func(Span)
}

// Forecast is the predicted time of a step.
type Forecast struct {
	// Seconds is the wall time, Work the core-seconds spent computing and communicating, Waiting the idle
	// core-seconds.
	Seconds, Work, Waiting float64
}

// draws is how often a step is simulated if the times of ops vary: the result is the mean, because the
// variation of a single run is as large as the differences between plans.
const draws = 8

// Forecast predicts the time of the step on devices that share cores: it runs the tapes against each other,
// as match does, with a simulated clock.
func (p *Plan) Forecast(m Machine) (Forecast, error) {
	if m.Cores < 1 || m.Crowd < 1 {
		return Forecast{}, fmt.Errorf(
			"forecast: %d cores that slow each other down %g times: want 1 or more of both",
			m.Cores,
			m.Crowd,
		)
	}
	if m.Slice == 0 {
		m.Slice = 10e-3
	}
	n := draws
	if m.Spread == 0 || m.Watch != nil {
		n = 1
	}
	prices := map[*ir.Func][]priced{}
	var mean Forecast
	for draw := range n {
		f, err := p.simulate(m, uint64(draw), prices)
		if err != nil {
			return Forecast{}, err
		}
		mean.Seconds += f.Seconds / float64(n)
		mean.Work += f.Work / float64(n)
		mean.Waiting += f.Waiting / float64(n)
	}
	return mean, nil
}

// simulate simulates the tapes once.
func (p *Plan) simulate(m Machine, draw uint64, prices map[*ir.Func][]priced) (Forecast, error) {
	threads := max(1, min(m.Threads/len(p.tapes), m.Cores))
	c := &stepSimulator{m: m, watch: m.Watch, threads: float64(threads),
		posted: map[message]bool{}, taken: map[message]bool{},
		waiting: map[waiting]int{}, arrivals: map[string][]int{}}
	for d, t := range p.tapes {
		p := &simDevice{device: d}
		if t != nil {
			var err error
			if p.events, err = t.timed(&pricing{Pricer: m.Prices, threads: threads, spread: m.Spread,
				device: draw<<16 + uint64(d+1), seen: map[uint64]uint64{}, watched: m.Watch != nil}, prices); err != nil {
				return Forecast{}, err
			}
			p.left = p.events[0].work
		}
		c.devices = append(c.devices, p)
		c.ready = append(c.ready, p)
	}
	return c.run()
}

// pricing holds the prices of a device with the given number of threads.
type pricing struct {
	Pricer
	threads int
	spread  float64
	device  uint64
	seen    map[uint64]uint64 // number of draws of each kind of node
	watched bool
}

// priced is the seconds of a node, and its kind: equal nodes of any two plans have the same kind.
type priced struct {
	seconds float64
	kind    uint64
}

// vary returns seconds with a random variation of mean zero. The n-th node of a kind on a device has the
// same variation in every plan, so that a plan that does another's work and more is never priced below it.
func (p *pricing) vary(x priced) float64 {
	if p.spread == 0 || x.seconds == 0 {
		return x.seconds
	}
	p.seen[x.kind]++
	drawn := x.kind + p.device<<32 + p.seen[x.kind]<<2
	sum := 0.0
	for i := range uint64(4) { // four uniform numbers approximate a normal distribution
		h := (drawn + i) * 0x9e3779b97f4a7c15
		h = (h ^ h>>30) * 0xbf58476d1ce4e5b9
		h = (h ^ h>>27) * 0x94d049bb133111eb
		sum += float64((h^h>>31)>>11) / (1 << 53)
	}
	return x.seconds * math.Max(0.1, 1+p.spread*(sum-2)*math.Sqrt(3))
}

// timed returns the device's events with the seconds between them; prices caches those of programs.
func (t *tape) timed(p *pricing, prices map[*ir.Func][]priced) ([]event, error) {
	list, err := t.events()
	if err != nil {
		return nil, err
	}
	at, work := 0, 0.0
	awaitSends := func() {
		for at < len(list) && list[at].kind == delivered {
			list[at].work, work = work, 0
			at++
		}
	}
	var begins []beginning
	for i := range t.code {
		awaitSends()
		if p.watched {
			begins = append(begins, beginning{at, event{kind: started, work: work, span: t.span(i)}})
			work = 0
		}
		switch in := &t.code[i]; in.kind {
		case send:
			list[at].work, work = work, 0
			at++
		case receive:
			list[at].work, list[at].load, work = work, p.Deliver(float64(t.buffers[in.out[0]].t.Bytes())), 0
			at++
		case call:
			at, work = t.timedCall(in, p, prices, list, at, work)
		}
	}
	awaitSends()
	if at != len(list) {
		return nil, fmt.Errorf("forecast: device %d has %d events, %d of them timed", t.device, len(list), at)
	}
	return withBegins(append(list, event{kind: ended, work: work}), begins), nil
}

// timedCall times the events of a program, the loads of the batch before it and the copies after it.
func (t *tape) timedCall(in *instruction, p *pricing, prices map[*ir.Func][]priced, list []event, at int,
	work float64) (int, float64) {
	f := in.exe.Func()
	nodes := prices[f]
	if nodes == nil {
		nodes = pricesOf(f, p)
		prices[f] = nodes
	}
	for _, l := range in.loads {
		work += p.Copy(float64(t.buffers[l.buffer].t.Bytes()))
	}
	for i, n := range f.Nodes() {
		events := t.eventsOf(n)
		if events == 0 {
			work += p.vary(nodes[i])
			continue
		}
		for k := range events {
			list[at+k].work, work = work, 0
			if list[at+k].kind != sent {
				list[at+k].load = p.vary(nodes[i])
			}
		}
		at += events
	}
	for _, c := range in.copies {
		work += p.Copy(float64(t.buffers[c[0]].t.Bytes()))
	}
	work += p.Copy(t.offloadBytes(in))
	return at, work
}

// pricesOf returns the price of each node. A move between meshes is priced as a message for each end.
func pricesOf(f *ir.Func, p *pricing) []priced {
	list := make([]priced, len(f.Nodes()))
	for i, n := range f.Nodes() {
		list[i].kind = kindOf(n)
		if _, ok := n.Op().(op.Messenger); ok {
			w := n.Op().(op.Op).Work(typesOfValues(n.In()), typesOfValues(n.Out()))
			list[i].seconds = p.Deliver(w.Bytes / 2)
			continue
		}
		list[i].seconds = p.Node(n, p.threads)
	}
	return list
}

// kindOf returns a hash of a node's op and results, independent of the names of the axes that split it.
func kindOf(n *ir.Node) uint64 {
	h := fnv.New64a()
	io.WriteString(h, n.Op().Name())
	for _, v := range n.Out() {
		fmt.Fprint(h, v.DType(), v.Shape())
	}
	return h.Sum64()
}

func typesOfValues(vs []*ir.Value) []ir.Type {
	list := make([]ir.Type, len(vs))
	for i, v := range vs {
		list[i] = v.Type()
	}
	return list
}

// eventsOf returns the number of events of a node: those that collectives lists for it.
func (t *tape) eventsOf(n *ir.Node) int {
	c, ok := n.Op().(op.Collective)
	if !ok {
		return 0
	}
	if m, ok := n.Op().(op.Messenger); ok {
		to, from, err := m.Messages(t.device)
		if err != nil {
			return 0
		}
		return len(to) + len(from)
	}
	if members, err := op.Members(c, t.device); err != nil || len(members) < 2 {
		return 0
	}
	return 1
}

// simDevice is the state of a device in its tape: left is the seconds that it computes until its next event.
type simDevice struct {
	device      int
	events      []event
	at          int
	left, slice float64
	// delay is the time until its core has woken up.
	delay float64
	// over means that the current event has happened, and left is the device's part in it. waits means that the
	// device has reached it, at a time.
	over, waits bool
	arrived     float64
	// doing is the current instruction, since a time.
	doing *event
	since float64
}

// stepSimulator runs devices on cores.
type stepSimulator struct {
	m        Machine
	devices  []*simDevice
	ready    []*simDevice // first come, first served
	running  []*simDevice
	now      float64
	work     float64
	threads  float64 // of each device
	posted   map[message]bool
	taken    map[message]bool
	idle     []float64 // since when cores are idle
	waiting  map[waiting]int
	arrivals map[string][]int
	watch    func(Span)
}

func (c *stepSimulator) run() (Forecast, error) {
	for {
		for len(c.running) < c.m.Cores && len(c.ready) > 0 {
			p := c.ready[0]
			c.ready = c.ready[1:]
			p.slice, p.delay = c.m.Slice, c.wakeCore()
			c.running = append(c.running, p)
		}
		for len(c.idle) < c.m.Cores-len(c.running) {
			c.idle = append(c.idle, c.now)
		}
		if len(c.running) == 0 {
			break
		}
		c.advance()
	}
	for _, p := range c.devices {
		if p.at < len(p.events) {
			return Forecast{}, fmt.Errorf("forecast: device %d waits for ever at %s", p.device, p.events[p.at].at)
		}
	}
	return Forecast{Seconds: c.now, Work: c.work, Waiting: c.now*float64(c.m.Cores) - c.work}, nil
}

// awake is how long an idle core looks for work before it sleeps.
const awake = 10e-6

// wakeCore takes the core that has been idle for the shortest time and returns how long it takes to start.
func (c *stepSimulator) wakeCore() float64 {
	n := len(c.idle)
	if n == 0 {
		return 0
	}
	since := c.idle[n-1]
	c.idle = c.idle[:n-1]
	if c.now-since < awake {
		return 0
	}
	return c.m.Latency
}

// advance lets time pass until a running device reaches an event or the end of its slice.
func (c *stepSimulator) advance() {
	busy, delay := 0, math.Inf(1)
	for _, p := range c.running {
		if p.delay > 0 {
			delay = math.Min(delay, p.delay)
		} else {
			busy++
		}
	}
	slow := 1.0
	if c.m.Cores > 1 && busy > 0 {
		slow += (c.m.Crowd - 1) * float64(busy-1) / float64(c.m.Cores-1)
	}
	least := delay / slow
	for _, p := range c.running {
		if p.delay == 0 {
			least = math.Min(least, math.Min(p.left, p.slice))
		}
	}
	c.now += least * slow
	c.work += least * slow * float64(busy) * c.threads
	was := c.running
	c.running = nil
	for _, p := range was {
		c.pass(p, least, least*slow)
	}
}

// pass lets a device compute for the given seconds of its own, or wait for its core.
func (c *stepSimulator) pass(p *simDevice, seconds, wall float64) {
	if p.delay > 0 {
		if p.delay -= wall; p.delay < 1e-12 {
			p.delay = 0
		}
		c.running = append(c.running, p)
		return
	}
	p.left -= seconds
	p.slice -= seconds
	switch {
	case p.left > 1e-12 && p.slice > 1e-12:
		c.running = append(c.running, p)
	case p.left > 1e-12:
		c.ready = append(c.ready, p)
	default:
		c.arrive(p)
	}
}

// arrive advances a device past its events until it has something to compute or has to wait.
func (c *stepSimulator) arrive(p *simDevice) {
	for p.at < len(p.events) {
		e := &p.events[p.at]
		if !p.over {
			if !p.waits {
				p.arrived, p.waits = c.now, true
			}
			if !c.happens(p, e) {
				return
			}
			if p.over = true; e.load > 0 {
				p.left = e.load
				c.ready = append(c.ready, p)
				return
			}
		}
		if e.kind == received {
			c.taken[e.key] = true
			c.wake(waiting{delivered, e.key})
		}
		c.reportEvent(p, e)
		p.over, p.waits = false, false
		if p.at++; p.at == len(p.events) || p.events[p.at].work == 0 {
			continue
		}
		p.left = p.events[p.at].work
		if e.kind == started { // the device continues
			c.running = append(c.running, p)
		} else {
			c.ready = append(c.ready, p)
		}
		return
	}
}

// happens reports whether an event does not block the device any longer; if it does, another device will wake
// it.
func (c *stepSimulator) happens(p *simDevice, e *event) bool {
	switch e.kind {
	case collective:
		return c.meet(p, e)
	case sent:
		c.posted[e.key] = true
		c.wake(waiting{received, e.key})
	case received:
		if !c.posted[e.key] {
			c.waiting[waiting{received, e.key}] = p.device
			return false
		}
	case delivered:
		if !c.taken[e.key] {
			c.waiting[waiting{delivered, e.key}] = p.device
			return false
		}
	}
	return true
}

// meet reports whether the device is the last to arrive at a collective; the others then continue.
func (c *stepSimulator) meet(p *simDevice, e *event) bool {
	came := append(c.arrivals[e.group], p.device)
	if len(came) < e.size {
		c.arrivals[e.group] = came
		return false
	}
	delete(c.arrivals, e.group)
	for _, d := range came[:len(came)-1] {
		q := c.devices[d]
		q.over, q.left = true, q.events[q.at].load
		c.ready = append(c.ready, q)
	}
	return true
}

func (c *stepSimulator) wake(k waiting) {
	if d, ok := c.waiting[k]; ok {
		delete(c.waiting, k)
		c.devices[d].left = 0
		c.ready = append(c.ready, c.devices[d])
	}
}
