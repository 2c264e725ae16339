//go:build storm

package main

import (
	"encoding/json"
	"net/http"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/galley-ml/galley/internal/elastic/agent"
)

var epochLine = regexp.MustCompile(`elastic: \w+: epoch \d+: \d+ processes`)

// epochs returns how many epochs have begun, and how many steps were told.
func (c *testHosts) epochs() (n, told int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(epochLine.FindAllString(c.log.String(), -1)), c.told
}

// slowLoss is more than the next loss may take: what happened meanwhile is told.
const slowLoss = 8 * time.Second

// nextLoss does something that ends an epoch, and returns how long it takes to the first loss of the next.
func (c *testHosts) nextLoss(what func()) time.Duration {
	c.t.Helper()
	n, told := c.epochs()
	began := time.Now()
	what()
	for time.Since(began) < long {
		now, more := c.epochs()
		if now == n {
			told = more
		} else if more > told {
			if took := time.Since(began); took > slowLoss {
				text := c.events()
				c.t.Logf("a slow one:\n%s", text[max(0, len(text)-4000):])
			}
			return time.Since(began)
		}
		time.Sleep(time.Millisecond)
	}
	c.t.Fatalf("no further epoch\n%s", c.events())
	return 0
}

// TestFiguresHost: the next loss after the agent and the workers of a host were killed, and after its link
// was cut, lease 5 s. Three hosts are namespaces with an etcd each.
func TestFiguresHost(t *testing.T) {
	c := newHosts(t, "--elastic 1:3", stormTrain, "a", "b", "c")
	if c.network = newNetwork(t, "a", "b", "c"); c.network == nil {
		t.Skip("no namespaces: it needs root and iproute2")
	}
	c.etcd = c.network.etcd()
	for _, h := range []string{"a", "b", "c"} {
		c.start(h)
	}
	c.goesOn(5, long)
	for range 3 { // two of them share the four devices, the third waits: a and b, a and c, a and b, …
		victim := "b"
		took := c.nextLoss(func() {
			_ = c.agents[victim].Process.Kill() // its workers end with it
			<-c.ends[victim]
		})
		t.Logf("host %s is killed: next loss after %.2f s", victim, took.Seconds())
		c.start(victim)
		for began := time.Now(); len(agent.Cards(c.network.memory(victim))) == 0 && time.Since(began) < long; {
			time.Sleep(10 * time.Millisecond)
		}
		c.goesOn(5, long)
		victim = "c"
		took = c.nextLoss(func() { c.network.link(victim, false) })
		t.Logf("the link of host %s is cut: next loss after %.2f s", victim, took.Seconds())
		n := strings.Count(c.events(), "joined again")
		c.network.link(victim, true)
		for began := time.Now(); strings.Count(c.events(), "joined again") == n; time.Sleep(10 * time.Millisecond) {
			if time.Since(began) > time.Minute {
				t.Fatalf("host %s does not come back\n%s", victim, c.events())
			}
		}
		c.goesOn(5, long)
	}
	(&storm{testHosts: c}).check()
}

// TestFiguresEtcd: etcd's leader of three is killed again and again: no epoch ends, and no step is lost.
// Where there is one server, and its host dies, the others stop in order, and go on when it is started again
// by hand.
func TestFiguresEtcd(t *testing.T) {
	c := newHosts(t, "--elastic 1:3", stormTrain, "a", "b", "c")
	for _, h := range []string{"a", "b", "c"} {
		c.start(h)
	}
	c.goesOn(5, long)
	before, _ := c.epochs()
	for range 5 {
		host := c.etcdLeader()
		for _, pid := range c.workers(host, true) {
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
		longest := time.Duration(0)
		for range 30 {
			longest = max(longest, c.goesOn(1, long))
		}
		t.Logf("etcd's leader, on %s, is killed: the longest of 30 steps took %.2f s", host, longest.Seconds())
	}
	if after, _ := c.epochs(); after != before || c.again > 0 {
		t.Errorf("%d epochs were begun, %d steps taken again\n%s", after-before, c.again, c.events())
	}
	(&storm{testHosts: c}).check()
}

// TestFiguresOneEtcd: the host of the only etcd dies. The other stops its workers, and goes on when the first
// is started again by hand.
func TestFiguresOneEtcd(t *testing.T) {
	c := newHosts(t, "--elastic 1:2", stormTrain, "a")
	c.start("a")
	c.goesOn(3, long)
	c.nextLoss(func() { c.start("b") })
	c.goesOn(5, long)
	_ = c.agents["a"].Process.Kill()
	<-c.ends["a"]
	c.wait("the store does not answer", long)
	for len(c.workers("b", false)) > 0 {
		time.Sleep(10 * time.Millisecond)
	}
	t.Logf("the only etcd is gone: host b has stopped its processes after step %d", c.step())
	took := c.nextLoss(func() { c.start("a") })
	t.Logf("it is started again: next loss after %.2f s", took.Seconds())
	c.goesOn(5, long)
	(&storm{testHosts: c}).check()
	if n := strings.Count(c.events(), "without a snapshot"); n != 1 {
		t.Errorf("%d epochs began without a snapshot\n%s", n, c.events())
	}
}

// etcdLeader returns the host whose etcd leads.
func (c *testHosts) etcdLeader() string {
	c.t.Helper()
	for began := time.Now(); time.Since(began) < long; time.Sleep(50 * time.Millisecond) {
		for server := range strings.SplitSeq(strings.TrimPrefix(c.etcd, "embedded="), ",") {
			host, address, _ := strings.Cut(server, "@")
			answer, err := http.Post("http://"+address+"/v3/maintenance/status", "", strings.NewReader("{}"))
			if err != nil {
				continue
			}
			var s struct {
				Leader string
				Header struct {
					Member string `json:"member_id"`
				}
			}
			err = json.NewDecoder(answer.Body).Decode(&s)
			answer.Body.Close()
			if err == nil && s.Leader != "" && s.Leader == s.Header.Member {
				return host
			}
		}
	}
	c.t.Fatal("etcd has no leader")
	return ""
}
