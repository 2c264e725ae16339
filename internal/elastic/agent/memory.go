//go:build linux || darwin

package agent

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/galley-ml/galley/internal/checkpoint"
	"github.com/galley-ml/galley/internal/elastic/epoch"
)

// memory holds the snapshots of this host: those of its own workers (own/eEPOCH/pPROCESS/sN), copies of those
// of another host (copies/HOST/…), and the checkpoints assembled from them, from which workers resume
// (resume/eN).
type memory struct {
	a       *Agent
	root    string
	lock    *os.File
	address string
	token   string

	listener net.Listener
	server   *http.Server
	client   *http.Client

	mu   sync.Mutex
	held []share
	news bool // copies have arrived since
}

// share is a process's part of a snapshot that a host holds.
type share struct {
	Epoch, Process int
	Step           int64
	Path           string // below the root
	Manifest       string
	partial        *checkpoint.Partial
	host           epoch.Place
}

// newMemory creates the directory of this host and starts to serve the others.
func newMemory(a *Agent) (*memory, error) {
	m := &memory{a: a, root: filepath.Join(a.Dir, "galley-"+a.Job+"-"+a.Host), client: &http.Client{}}
	if err := os.MkdirAll(m.root, 0o700); err != nil {
		return nil, err
	}
	var err error
	if m.lock, err = os.OpenFile(filepath.Join(m.root, "lock"), os.O_CREATE|os.O_RDWR, 0o600); err != nil {
		return nil, err
	}
	if err := syscall.Flock(int(m.lock.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		m.lock.Close()
		return nil, fmt.Errorf("an agent of host %s in job %s runs here already: choose another name with "+
			"--host or --job",
			a.Host, a.Job)
	}
	listener, err := net.Listen("tcp", ":0")
	if err != nil {
		m.lock.Close()
		return nil, err
	}
	m.listener = listener
	_, port, _ := net.SplitHostPort(listener.Addr().String())
	m.address = net.JoinHostPort(a.Address, port)
	m.server = &http.Server{Handler: m.handler(), ReadHeaderTimeout: 5 * time.Second}
	return m, nil
}

// adopt keeps what an earlier start of this agent left of the same job, and removes everything else; it
// writes this agent's card for programs on this host.
func (m *memory) adopt() error {
	path := filepath.Join(m.root, cardName)
	if old, err := readCard(path); err != nil || old.Token != m.token {
		for _, name := range []string{"own", "copies"} {
			if err := os.RemoveAll(filepath.Join(m.root, name)); err != nil {
				return err
			}
		}
	}
	for _, name := range []string{"resume", "fetched"} {
		if err := os.RemoveAll(filepath.Join(m.root, name)); err != nil {
			return err
		}
	}
	text, err := json.Marshal(Card{Job: m.a.Job, Host: m.a.Host, Address: m.address, Token: m.token})
	if err != nil {
		return err
	}
	m.refresh()
	go func() { _ = m.server.Serve(m.listener) }() // until close
	return os.WriteFile(path, text, 0o600)
}

// close stops serving and removes the directory: a leaving host takes its memory with it.
func (m *memory) close() {
	_ = m.server.Close() // callers notice by the connection
	_ = m.listener.Close()
	_ = os.RemoveAll(m.root)
	_ = m.lock.Close()
}

// refresh updates the list of what is held. Workers must not run.
func (m *memory) refresh() {
	var list []share
	for _, pattern := range []string{"own/e*/p*/s?", "copies/*/e*/p*/s?"} {
		dirs, _ := filepath.Glob(filepath.Join(m.root, pattern)) // the pattern is valid
		for _, dir := range dirs {
			if s, ok := m.open(dir); ok {
				list = append(list, s)
			}
		}
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.held, m.news = list, false
}

// stock returns what is held, including copies that have arrived while no worker ran here.
func (m *memory) stock() []share {
	m.mu.Lock()
	news := m.news
	m.mu.Unlock()
	if news {
		m.refresh()
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Clone(m.held)
}

// open reads one share. An incomplete one is skipped; one whose bytes have changed is reported.
func (m *memory) open(dir string) (s share, ok bool) {
	p, err := checkpoint.OpenPartial(dir)
	if errors.Is(err, os.ErrNotExist) {
		return s, false
	}
	if err != nil {
		m.a.events.record("passed over: %v", err)
		return s, false
	}
	text, err := p.Text()
	if err != nil {
		return s, false
	}
	s = share{Step: p.Step(), Manifest: string(text), partial: p}
	s.Path, _ = filepath.Rel(m.root, dir) // it is below
	s.Epoch, _ = strconv.Atoi(strings.TrimPrefix(filepath.Base(filepath.Dir(filepath.Dir(dir))), "e"))
	s.Process, _ = strconv.Atoi(strings.TrimPrefix(filepath.Base(filepath.Dir(dir)), "p"))
	return s, true
}

// steps returns the steps of the snapshots that are held, by epoch.
func (m *memory) steps() map[string][]int64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	out := map[string][]int64{}
	for _, s := range m.held {
		key := fmt.Sprintf("e%d/p%d", s.Epoch, s.Process)
		out[key] = append(out[key], s.Step)
	}
	return out
}

// gather returns what the hosts and holders of a plan hold together, this one's first. failed names a host
// that did not answer; a holder may be gone.
func (m *memory) gather(ctx context.Context, p *epoch.Plan) (held []share, failed string) {
	hosts := slices.Concat(p.Hosts, p.Holders)
	lists, errs := make([][]share, len(hosts)), make([]error, len(hosts))
	var wg sync.WaitGroup
	for i, h := range hosts {
		wg.Go(func() { lists[i], errs[i] = m.ask(ctx, h) })
	}
	wg.Wait()
	for i, h := range hosts {
		if errs[i] != nil && i >= len(p.Hosts) {
			continue
		}
		if errs[i] != nil {
			return nil, fmt.Sprintf("host %s: %v", h.Host, errs[i])
		}
		if h.Host == m.a.Host {
			held = append(slices.Clone(lists[i]), held...)
		} else {
			held = append(held, lists[i]...)
		}
	}
	return held, ""
}

// askFor is how long a host has to answer what it holds.
const askFor = 3 * time.Second

// ask returns what one host holds.
func (m *memory) ask(ctx context.Context, h epoch.Place) (list []share, err error) {
	if h.Host == m.a.Host {
		list = m.stock()
	} else {
		ctx, cancel := context.WithTimeout(ctx, askFor)
		defer cancel()
		body, err := m.get(ctx, h.Address, "/inventory", nil)
		if err != nil {
			return nil, err
		}
		defer body.Close()
		if err := json.NewDecoder(body).Decode(&list); err != nil {
			return nil, err
		}
	}
	for i := range list {
		list[i].host = h
		if list[i].partial == nil {
			if list[i].partial, err = checkpoint.ParsePartial([]byte(list[i].Manifest)); err != nil {
				return nil, err
			}
		}
	}
	return list, nil
}

// best returns the latest step whose boxes are all held, and the epoch whose workers wrote it; -1 if there is
// none.
func best(held []share) (from int, step int64) {
	type key struct {
		epoch int
		step  int64
	}
	groups := map[key][]*checkpoint.Partial{}
	for _, s := range held {
		k := key{s.Epoch, s.Step}
		groups[k] = append(groups[k], s.partial)
	}
	step = -1
	for k, list := range groups {
		if cmp.Or(cmp.Compare(k.step, step), cmp.Compare(k.epoch, from)) <= 0 {
			continue
		}
		if _, err := checkpoint.Merge(list); err == nil {
			from, step = k.epoch, k.step
		}
	}
	return from, step
}

// assemble makes the checkpoint from which the workers of a plan resume, and removes what no plan needs any
// more. dir is empty if there is none.
func (m *memory) assemble(ctx context.Context, p *epoch.Plan) (dir string, err error) {
	if p.Step < 0 {
		return "", m.forget(func(int, int64) bool { return false })
	}
	held, failed := m.gather(ctx, p)
	if failed != "" {
		return "", errors.New(failed)
	}
	held = slices.DeleteFunc(held, func(s share) bool { return s.Epoch != p.From || s.Step != p.Step })
	parts := make([]*checkpoint.Partial, len(held))
	for i, s := range held {
		parts[i] = s.partial
	}
	merged, err := checkpoint.Merge(parts)
	if err != nil {
		return "", err
	}
	dirs := make([]string, len(held))
	for i, s := range held {
		dirs[i] = filepath.Join(m.root, s.Path)
		if s.host.Host != m.a.Host {
			dirs[i] = filepath.Join(m.root, "fetched", s.host.Host, s.Path)
		}
	}
	for file, i := range merged.From {
		if held[i].host.Host != m.a.Host {
			if err := m.fetch(ctx, held[i].host, filepath.Join(held[i].Path, file),
				filepath.Join(dirs[i], file)); err != nil {
				return "", err
			}
		}
	}
	dir = filepath.Join(m.root, "resume", "e"+strconv.Itoa(p.Epoch))
	if _, err := merged.Write(dir, dirs); err != nil {
		return "", err
	}
	return dir, m.forget(func(epoch int, step int64) bool { return epoch == p.From && step == p.Step })
}

// forget removes the shares that are not to be kept.
func (m *memory) forget(keep func(epoch int, step int64) bool) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	var errs []error
	m.held = slices.DeleteFunc(m.held, func(s share) bool {
		if keep(s.Epoch, s.Step) {
			return false
		}
		errs = append(errs, os.RemoveAll(filepath.Join(m.root, s.Path)))
		return true
	})
	return errors.Join(errs...)
}

// outgrown removes what an epoch began from, once a later step is complete in all of its processes.
func (m *memory) outgrown(epoch int) {
	_ = m.forget(func(e int, _ int64) bool { return e >= epoch })
	for _, name := range []string{"resume", "fetched"} {
		_ = os.RemoveAll(filepath.Join(m.root, name)) // what remains is removed with the next
	}
	dirs, _ := filepath.Glob(filepath.Join(m.root, "own", "e*"))
	copies, _ := filepath.Glob(filepath.Join(m.root, "copies", "*", "e*"))
	for _, dir := range append(dirs, copies...) {
		if n, err := strconv.Atoi(strings.TrimPrefix(filepath.Base(dir), "e")); err == nil && n < epoch {
			_ = os.RemoveAll(dir)
		}
	}
}

// ownDir returns where a process stores its snapshots.
func (m *memory) ownDir(epoch, process int) string {
	return filepath.Join(m.root, "own", "e"+strconv.Itoa(epoch), "p"+strconv.Itoa(process))
}
