// Package etcd implements the store with an etcd cluster, over its JSON gateway: it needs only HTTP, so that
// the program does not include etcd's client and its dependencies. Package server is etcd itself, for
// clusters without one.
package etcd

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync/atomic"
	"time"

	"github.com/galley-ml/galley/internal/elastic/store"
)

// Store is an etcd cluster.
type Store struct {
	urls   []string
	client *http.Client
	at     atomic.Int64 // the index of the URL that answered last
}

var _ store.Store = (*Store)(nil)

// Parse parses etcd's addresses: URLs, separated by commas.
func Parse(text string) ([]string, error) {
	var list []string
	for part := range strings.SplitSeq(text, ",") {
		u, err := url.Parse(part)
		if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
			return nil, fmt.Errorf("%q: want URLs such as http://10.0.0.1:2379, separated by commas", part)
		}
		if u.User != nil || u.Path != "" && u.Path != "/" || u.RawQuery != "" {
			return nil, fmt.Errorf("%q: want no name, path or query: only http://HOST:PORT", part)
		}
		list = append(list, u.Scheme+"://"+u.Host)
	}
	return list, nil
}

// Open connects to a cluster and checks that its version is supported.
func Open(ctx context.Context, urls []string) (*Store, error) {
	transport := &http.Transport{DialContext: (&net.Dialer{Timeout: dialFor}).DialContext,
		MaxIdleConnsPerHost: 8,
		IdleConnTimeout:     time.Minute}
	s := &Store{urls: urls, client: &http.Client{Transport: transport}}
	if err := s.checkVersion(ctx); err != nil {
		return nil, fmt.Errorf("etcd at %s: %w", strings.Join(urls, ","), err)
	}
	return s, nil
}

// dialFor is the timeout of a connection attempt.
const dialFor = time.Second

// checkVersion checks etcd's version.
func (s *Store) checkVersion(ctx context.Context) error {
	var v struct{ Etcdserver string }
	err := s.each(ctx, func(base string) error {
		r, err := http.NewRequestWithContext(ctx, http.MethodGet, base+"/version", nil)
		if err != nil {
			return err
		}
		answer, err := s.client.Do(r)
		if err != nil {
			return err
		}
		defer answer.Body.Close()
		if answer.StatusCode != http.StatusOK {
			return fmt.Errorf("%s: %s is no etcd", answer.Status, base)
		}
		return json.NewDecoder(io.LimitReader(answer.Body, 1<<16)).Decode(&v)
	})
	if err != nil {
		return fmt.Errorf("it does not answer: %w", err)
	}
	var major, minor int
	if n, _ := fmt.Sscanf(v.Etcdserver, "%d.%d", &major, &minor); n != 2 || major != 3 || minor < 4 {
		return fmt.Errorf("it has version %q: want 3.4 or later", v.Etcdserver)
	}
	return nil
}

// each tries the servers, the one that answered last first, until one answers.
func (s *Store) each(ctx context.Context, f func(base string) error) error {
	at := int(s.at.Load())
	var errs []error
	for i := range s.urls {
		k := (at + i) % len(s.urls)
		err := f(s.urls[k])
		if err == nil {
			s.at.Store(int64(k))
			return nil
		}
		if _, told := errors.AsType[*answerError](err); told {
			return err
		}
		errs = append(errs, err)
		if ctx.Err() != nil {
			break
		}
	}
	return errors.Join(errs...)
}

// answerError is an error that etcd returns.
type answerError struct {
	code int
	text string
}

func (e *answerError) Error() string { return "etcd: " + e.text }

// Codes of etcd's answers.
const (
	codeNotFound    = 5
	codeUnavailable = 14
)

// call sends a request to etcd.
func (s *Store) call(ctx context.Context, path string, ask, answer any) error {
	text, err := json.Marshal(ask)
	if err != nil {
		return err
	}
	return s.each(ctx, func(base string) error {
		one, cancel := context.WithTimeout(ctx, s.patience(ctx))
		defer cancel()
		body, err := s.post(one, base+path, text)
		if err != nil {
			return err
		}
		defer body.Close()
		return json.NewDecoder(body).Decode(answer)
	})
}

// patience returns the timeout of one server, such that there is time for the others.
func (s *Store) patience(ctx context.Context) time.Duration {
	until, ok := ctx.Deadline()
	if !ok {
		return 5 * time.Second
	}
	return max(time.Until(until)/time.Duration(len(s.urls)), 10*time.Millisecond)
}

func (s *Store) post(ctx context.Context, url string, text []byte) (io.ReadCloser, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, url, bytes.NewReader(text))
	if err != nil {
		return nil, err
	}
	answer, err := s.client.Do(r)
	if err != nil {
		return nil, err
	}
	if answer.StatusCode == http.StatusOK {
		return answer.Body, nil
	}
	defer answer.Body.Close()
	var e struct {
		Code    int
		Message string
	}
	body, _ := io.ReadAll(io.LimitReader(answer.Body, 1<<16))
	if json.Unmarshal(body, &e) != nil || e.Message == "" {
		e.Message = answer.Status
	}
	if strings.Contains(e.Message, "database space exceeded") {
		e.Message += ": it is full: compact and defragment it, then disarm its alarm (etcdctl alarm disarm)"
	}
	if e.Code == codeUnavailable || e.Code == 0 {
		return nil, fmt.Errorf("etcd at %s: %s", url, e.Message)
	}
	return nil, &answerError{e.Code, e.Message}
}

// keyValue is an entry in etcd's encoding.
type keyValue struct {
	Key    []byte `json:"key"`
	Value  []byte `json:"value"`
	Mod    int64  `json:"mod_revision,string"`
	Create int64  `json:"create_revision,string"`
}

// List returns all entries below a prefix, as they are when the call ends.
func (s *Store) List(ctx context.Context, prefix string) ([]store.Entry, error) {
	ask := map[string]any{"key": []byte(prefix), "range_end": rangeEnd(prefix)}
	var answer struct {
		Kvs []keyValue `json:"kvs"`
	}
	if err := s.call(ctx, "/v3/kv/range", ask, &answer); err != nil {
		return nil, err
	}
	list := make([]store.Entry, len(answer.Kvs))
	for i, kv := range answer.Kvs {
		list[i] = store.Entry{Key: string(kv.Key), Value: kv.Value, Revision: kv.Mod, Created: kv.Create}
	}
	return list, nil
}

// rangeEnd returns the first key after all that begin with a prefix.
func rangeEnd(prefix string) []byte {
	end := []byte(prefix)
	for i := len(end) - 1; i >= 0; i-- {
		if end[i] < 0xff {
			end[i]++
			return end[:i+1]
		}
	}
	return []byte{0}
}

// Commit makes all changes if all conditions hold.
func (s *Store) Commit(ctx context.Context, conditions []store.Condition,
	changes []store.Change) (bool, error) {
	compare, success := []map[string]any{}, []map[string]any{}
	for _, c := range conditions {
		compare = append(compare, map[string]any{"result": "EQUAL", "target": "MOD", "key": []byte(c.Key),
			"mod_revision": fmt.Sprint(c.Revision)})
	}
	for _, c := range changes {
		if c.Delete {
			success = append(success, map[string]any{"request_delete_range": map[string]any{"key": []byte(c.Key)}})
			continue
		}
		put := map[string]any{"key": []byte(c.Key), "value": c.Value}
		if l, ok := c.Lease.(*lease); ok {
			put["lease"] = l.id
		}
		success = append(success, map[string]any{"request_put": put})
	}
	var answer struct {
		Succeeded bool `json:"succeeded"`
	}
	err := s.call(ctx, "/v3/kv/txn", map[string]any{"compare": compare, "success": success}, &answer)
	if e, ok := errors.AsType[*answerError](err); ok && e.code == codeNotFound {
		return false, store.ErrExpired
	}
	return answer.Succeeded, err
}

// Watch signals changes below a prefix. It also signals when the connection is lost, and reconnects.
func (s *Store) Watch(ctx context.Context, prefix string) <-chan struct{} {
	out := make(chan struct{}, 1)
	go func() {
		defer close(out)
		for ctx.Err() == nil {
			_ = s.each(ctx, func(base string) error { return s.watch(ctx, base, prefix, out) })
			tell(out)
			select {
			case <-ctx.Done():
			case <-time.After(watchAgain):
			}
		}
	}()
	return out
}

// watchAgain is the delay before a watch that has ended is restarted.
const watchAgain = 100 * time.Millisecond

// tell signals a change, unless a signal is pending.
func tell(out chan<- struct{}) {
	select {
	case out <- struct{}{}:
	default:
	}
}

// watch follows the changes that one server reports, until it ends.
func (s *Store) watch(ctx context.Context, base, prefix string, out chan<- struct{}) error {
	ask, err := json.Marshal(map[string]any{"create_request": map[string]any{"key": []byte(prefix),
		"range_end": rangeEnd(prefix), "progress_notify": true}})
	if err != nil {
		return err
	}
	body, err := s.post(ctx, base+"/v3/watch", ask)
	if err != nil {
		return err
	}
	defer body.Close()
	for d := json.NewDecoder(body); ; {
		var one json.RawMessage
		if err := d.Decode(&one); err != nil {
			return err
		}
		tell(out)
	}
}

// Close closes idle connections.
func (s *Store) Close() error {
	s.client.CloseIdleConnections()
	return nil
}

// lease is a lease of etcd.
type lease struct {
	s  *Store
	id string
}

// Grant creates a lease.
func (s *Store) Grant(ctx context.Context, ttl time.Duration) (store.Lease, error) {
	var answer struct {
		ID  string `json:"ID"`
		TTL string `json:"TTL"`
	}
	seconds := int64((ttl + time.Second - 1) / time.Second)
	if err := s.call(ctx, "/v3/lease/grant", map[string]any{"TTL": seconds}, &answer); err != nil {
		return nil, err
	}
	return &lease{s, answer.ID}, nil
}

// Renew restarts the lease's time to live.
func (l *lease) Renew(ctx context.Context) error {
	var answer struct {
		Result struct {
			TTL string `json:"TTL"`
		} `json:"result"`
	}
	if err := l.s.call(ctx, "/v3/lease/keepalive", map[string]any{"ID": l.id}, &answer); err != nil {
		return err
	}
	if answer.Result.TTL == "" || answer.Result.TTL == "0" {
		return store.ErrExpired
	}
	return nil
}

// Revoke ends the lease.
func (l *lease) Revoke(ctx context.Context) error {
	var answer struct{}
	return l.s.call(ctx, "/v3/lease/revoke", map[string]any{"ID": l.id}, &answer)
}

// Reachable returns the local address from which this host reaches the first of some servers that has one;
// others reach this host by it.
func Reachable(urls []string) string {
	for _, text := range urls {
		u, err := url.Parse(text)
		if err != nil {
			continue
		}
		c, err := net.Dial("udp", u.Host) // sends nothing
		if err != nil {
			continue
		}
		defer c.Close()
		if host, _, err := net.SplitHostPort(c.LocalAddr().String()); err == nil {
			return host
		}
	}
	return "127.0.0.1"
}
