package epoch

import (
	"errors"
	"strings"
	"testing"
	"time"
)

// hosts returns a view of a job whose plan has all of them, each with two processes.
func hosts(names ...string) *View {
	v := &View{Members: map[string]Member{}, Drained: map[string]bool{}, Ended: map[string]Ended{}, Epoch: 1}
	var list []Member
	for _, name := range names {
		m := Member{Host: name, ID: name, Processes: 2}
		v.Members[name], list = m, append(list, m)
	}
	v.Plan = &Plan{Epoch: 1, Hosts: Places(list)}
	return v
}

// fail has the workers of a host fail in the view's epoch, and those of the others end with them.
func (v *View) fail(host, text string, step int64) {
	for _, h := range v.Plan.Hosts {
		e := Ended{Host: h.Host, ID: h.ID, Why: Followed, Step: step}
		if h.Host == host {
			e.Why, e.Text = Failed, text
		}
		v.Ended[h.Host] = e
	}
}

// follow makes the view that of the epoch that a move begins.
func (v *View) follow(m Move) {
	v.Epoch++
	v.Plan = &Plan{Epoch: v.Epoch, Hosts: Places(m.Begin)}
	v.Ended = map[string]Ended{}
	if m.Failures != nil {
		v.Failures = m.Failures
	}
}

// TestLeftOut: a host that fails three times within ten minutes is left out for a minute, then for two; one
// whose failures are further apart is not, and where too few others are left it is taken all the same.
func TestLeftOut(t *testing.T) {
	c := Config{Min: 1, Max: 2}
	v, m := hosts("a", "b"), &Memory{}
	failThrice := func() Move {
		var move Move
		for i := range 3 {
			v.fail("b", "memory", int64(100*v.Epoch)+int64(i))
			move = v.Lead(c, m)
			v.follow(move)
			m.Now += time.Minute
		}
		return move
	}
	if move := failThrice(); len(move.Begin) != 1 || move.Begin[0].Host != "a" {
		t.Fatalf("after three failures: %+v, want host a alone", move.Begin)
	}
	m.Now += -time.Minute + 59*time.Second
	v.fail("a", "link", 1000)
	if move := v.Lead(c, m); len(move.Begin) != 1 {
		t.Errorf("after 59 s: %+v, want host a alone", move.Begin)
	}
	m.Now += 2 * time.Second
	if move := v.Lead(c, m); len(move.Begin) != 2 {
		t.Fatalf("after a minute: %+v, want both", move.Begin)
	} else {
		v.follow(move)
	}
	failThrice()
	m.Now += -time.Minute + 90*time.Second
	v.fail("a", "link", 5000)
	if move := v.Lead(c, m); len(move.Begin) != 1 {
		t.Errorf("the second time after 90 s: %+v, want host a alone for two minutes", move.Begin)
	}
	if move := v.Lead(Config{Min: 2, Max: 2}, m); len(move.Begin) != 2 {
		t.Errorf("where two hosts are the least: %+v, want both", move)
	}
}

// TestSeldomFailures: failures that are more than ten minutes apart leave nobody out.
func TestSeldomFailures(t *testing.T) {
	v, m := hosts("a", "b"), &Memory{}
	for i := range 6 {
		v.fail("b", "memory", int64(i))
		move := v.Lead(Config{Min: 1, Max: 2}, m)
		if len(move.Begin) != 2 {
			t.Fatalf("failure %d: %+v, want both hosts", i, move)
		}
		v.follow(move)
		m.Now += 6 * time.Minute
	}
}

// TestGivesUp: the same failure after the same step for the third time ends the job, others do not.
func TestGivesUp(t *testing.T) {
	v, m := hosts("a"), &Memory{}
	for i, step := range []int64{7, 8, 7, 7, 7} {
		v.fail("a", "boom", step)
		move := v.Lead(Config{Min: 1, Max: 1}, m)
		if last := i == 4; last != (move.Done != nil) {
			t.Fatalf("failure %d: %+v", i, move)
		} else if last {
			if move.Done.Code != 1 || move.Done.Text != "after step 7, for the third time: boom" {
				t.Errorf("got %+v", move.Done)
			}
			return
		}
		v.follow(move)
	}
}

// TestDrained: a host that is asked to leave ends the epoch in order, and the next one begins without it.
func TestDrained(t *testing.T) {
	c := Config{Min: 1, Max: 2}
	v, m := hosts("a", "b"), &Memory{}
	if move := v.Lead(c, m); move.Stop != nil {
		t.Fatalf("nothing has happened: %+v", move)
	}
	v.Drained["b"] = true
	move := v.Lead(c, m)
	if move.Stop == nil || move.Stop.Hard || move.Stop.Why != "host b leaves" {
		t.Fatalf("drained: %+v, want an end in order", move)
	}
	v.Stop = move.Stop
	if move := v.Lead(c, m); move.Stop != nil {
		t.Errorf("the workers are ending: %+v", move)
	}
	m.Now += Patience + time.Second
	if move := v.Lead(c, m); move.Stop == nil || !move.Stop.Hard {
		t.Errorf("they have not ended: %+v, want a hard stop", move)
	}
	for _, h := range v.Plan.Hosts {
		v.Ended[h.Host] = Ended{Host: h.Host, ID: h.ID, Why: HandedOn, Step: 9}
	}
	if move := v.Lead(c, m); len(move.Begin) != 1 || move.Begin[0].Host != "a" {
		t.Errorf("next epoch: %+v, want host a alone", move)
	}
}

// TestJoins: a host is taken at once if what it gains over the next ten minutes exceeds a restart.
func TestJoins(t *testing.T) {
	for _, test := range []struct {
		restart time.Duration
		taken   bool
	}{{time.Second, true}, {4 * time.Minute, true}, {6 * time.Minute, false}} {
		v, m := hosts("a"), &Memory{Restart: test.restart}
		v.Members["b"] = Member{Host: "b", ID: "b", Processes: 2} // half of ten minutes are gained
		move := v.Lead(Config{Min: 1, Max: 2}, m)
		if (move.Stop != nil) != test.taken {
			t.Errorf("a restart takes %v: %+v, want taken %v", test.restart, move, test.taken)
		}
	}
}

// TestMissing: with too few hosts the job waits, and says who is there and why others do not count.
func TestMissing(t *testing.T) {
	v := &View{Plan: &Plan{Hosts: []Place{{Host: "e", ID: "e"}}}, Epoch: 1,
		Members: map[string]Member{"a": {Host: "a", Processes: 1}, "b": {Host: "b", Version: "2"},
			"c": {Host: "c", Flags: "x"}, "d": {Host: "d", Leaving: true}}}
	got := v.Lead(Config{Min: 2, Max: 4}, &Memory{}).Waiting
	for _, want := range []string{"1 of at least 2 hosts are here", "b has version 2 and not ",
		"c was started with other flags", "d leaves", "e is gone"} {
		if !strings.Contains(got, want) {
			t.Errorf("got %q, want it to say %q", got, want)
		}
	}
}

// TestJoinsByPrice: where the planner has a price, it says what a host gains, and not the number of
// processes.
func TestJoinsByPrice(t *testing.T) {
	for _, test := range []struct {
		before, after float64 // seconds a step
		ready         bool
		taken         string
	}{
		{2, 1.5, true, "gain 2m30s of the next 10m0s by the planner (1.5 s a step, 2 s before)"},
		{2, 2.5, true, ""}, // the link is slower than what it saves
		{2, 1, false, ""},
		{0, 1, true, "gain 5m0s of the next 10m0s by their number"},
	} {
		v, m := hosts("a"), &Memory{Restart: time.Second}
		v.Members["b"] = Member{Host: "b", ID: "b", Processes: 2}
		price := func(list []Member) (float64, bool) {
			if len(list) == 1 {
				return test.before, test.ready
			}
			return test.after, test.ready
		}
		move, got := v.Lead(Config{Min: 1, Max: 2, Price: price}, m), ""
		if move.Stop != nil {
			got = move.Stop.Why
		}
		if (got != "") != (test.taken != "") || !strings.Contains(got, test.taken) {
			t.Errorf("%v s, then %v: got %q, want %q", test.before, test.after, got, test.taken)
		}
	}
}

// TestOneBadHost: a failure that comes three times at one step on one host leaves that out, where others can
// do without it; when another fails there, too, the job ends.
func TestOneBadHost(t *testing.T) {
	c := Config{Min: 1, Max: 2}
	v, m := hosts("a", "b"), &Memory{}
	for range 3 {
		v.fail("b", "memory", 7)
		move := v.Lead(c, m)
		if move.Done != nil {
			t.Fatalf("%+v, want the job to go on", move)
		}
		v.follow(move)
	}
	if len(v.Plan.Hosts) != 1 || v.Plan.Hosts[0].Host != "a" {
		t.Fatalf("plan on %+v, want a alone", v.Plan.Hosts)
	}
	v.fail("a", "memory", 7)
	if move := v.Lead(c, m); move.Done == nil || move.Done.Code != 1 {
		t.Fatalf("on a, too: %+v, want the end", move)
	}
}

// TestBlame: where workers of several hosts fail, the one counts that does not only miss another.
func TestBlame(t *testing.T) {
	v := hosts("a", "b")
	v.Ended["a"] = Ended{Host: "a", ID: "a", Why: Failed, Text: "process 1 is lost", Lost: true}
	v.Ended["b"] = Ended{Host: "b", ID: "b", Why: Failed, Text: "memory"}
	if f := v.failure(); f == nil || f.Host != "b" {
		t.Errorf("got %+v, want host b", f)
	}
}

// TestSpare: a host that could take part and does not keeps copies, and lets the only other one leave.
func TestSpare(t *testing.T) {
	c := Config{Min: 1, Max: 2}
	v := hosts("a")
	if v.Spare(c) != nil || v.CanLose(c, "a") {
		t.Error("host a is alone")
	}
	v.Members["c"], v.Members["b"] = Member{Host: "c", ID: "c", Processes: 1},
		Member{Host: "b", ID: "b", Processes: 1}
	if s := v.Spare(c); s == nil || s.Host != "b" || !v.CanLose(c, "a") {
		t.Errorf("got %+v, want b", s)
	}
	v.Drained["b"] = true
	v.Members["c"] = Member{Host: "c", ID: "c", Flags: "x"}
	if s := v.Spare(c); s != nil || v.CanLose(c, "a") {
		t.Errorf("got %+v: b leaves, and c has other flags", s)
	}
}

// TestFewer: where no plan is for all hosts, as many take part as there is one for; where that would be fewer
// than the least, all do, and their workers say why.
func TestFewer(t *testing.T) {
	v := &View{Members: map[string]Member{}}
	for _, host := range []string{"a", "b", "c"} {
		v.Members[host] = Member{Host: host, ID: host, Processes: 1}
	}
	even := func(list []Member) (string, error) {
		if Processes(list)%2 != 0 {
			return "", errors.New("no plan")
		}
		return "dp=2", nil
	}
	for least, want := range map[int]int{1: 2, 2: 2, 3: 3} {
		m := v.Lead(Config{Min: least, Max: 3, Strategy: even}, &Memory{Now: time.Hour,
			since: map[string]time.Duration{"begin": 0}})
		if len(m.Begin) != want {
			t.Errorf("at least %d hosts: got %d, want %d", least, len(m.Begin), want)
		}
	}
}

// TestClockBack: what lasts is counted anew when the clock has gone back, and so ends.
func TestClockBack(t *testing.T) {
	v := hosts("a", "b")
	v.Stop = &Stop{Why: "b leaves"}
	m := &Memory{Now: time.Hour}
	for _, step := range []struct {
		now  time.Duration
		hard bool
	}{{time.Hour, false}, {0, false}, {Patience, false}, {Patience + time.Second, true}} {
		m.Now = step.now
		if move := v.Lead(Config{Min: 1, Max: 2}, m); (move.Stop != nil) != step.hard {
			t.Errorf("at %v: got %+v, want an end %v", step.now, move.Stop, step.hard)
		}
	}
}
