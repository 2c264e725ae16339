package process

import (
	"bytes"
	"context"
	"fmt"
)

// value is the value of a key.
type value struct {
	data []byte
	set  chan struct{} // closed when there is data
}

// valueAt returns the value of a key; the first Put or Get of the key makes it. p.mu is held.
func (p *Process) valueAt(key string) *value {
	v := p.values[key]
	if v == nil {
		v = &value{set: make(chan struct{})}
		p.values[key] = v
	}
	return v
}

// Put sends all processes a value for a key, once: another value for the same key is an error. Notes of two
// processes may cross, so each key must belong to one process.
func (p *Process) Put(key string, data []byte) error {
	if err := p.keep(key, data); err != nil {
		return err
	}
	p.postAll(append(appendString(header(putNote, 0, 0), key), data...))
	return nil
}

// keep stores a value.
func (p *Process) keep(key string, data []byte) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	v := p.valueAt(key)
	select {
	case <-v.set:
		if !bytes.Equal(v.data, data) {
			return fmt.Errorf("key %q has a value already", key)
		}
	default:
		v.data = append([]byte{}, data...)
		close(v.set)
	}
	return nil
}

// TryGet returns the value of a key, if it has arrived.
func (p *Process) TryGet(key string) ([]byte, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	v := p.values[key]
	if v == nil {
		return nil, false
	}
	select {
	case <-v.set:
		return v.data, true
	default:
		return nil, false
	}
}

// Get returns the value of a key. It waits until some process has put it, the context ends or a process is
// lost.
func (p *Process) Get(ctx context.Context, key string) ([]byte, error) {
	p.mu.Lock()
	set := p.valueAt(key).set
	p.mu.Unlock()
	either := make(chan struct{})
	go func() {
		defer close(either)
		select {
		case <-set:
		case <-ctx.Done():
		case <-p.ended:
		}
	}()
	p.transport.Drive(either, nil)
	if data, ok := p.TryGet(key); ok {
		return data, nil
	}
	if ctx.Err() != nil {
		return nil, fmt.Errorf("key %q: no process has put it: %w", key, context.Cause(ctx))
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	return nil, p.over
}
