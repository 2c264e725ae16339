package commtest

import (
	"fmt"

	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/internal/comm"
)

func messageChecks() []check {
	return []check{
		{"messages_by_tag", []int{2, 3}, messagesByTag},
		{"messages_in_order", []int{2}, messagesInOrder},
		{"message_to_oneself", []int{1, 2}, messageToOneself},
		{"barrier", worldSizes, barrier},
	}
}

// ringPeers returns the neighbours that a rank sends to and receives from.
func ringPeers(c comm.Comm) (to, from int) {
	return (c.ID() + 1) % c.Size(), (c.ID() + c.Size() - 1) % c.Size()
}

// messagesByTag receives messages in another order than they were sent.
func messagesByTag(c comm.Comm) error {
	g := everyone(c)
	to, from := ringPeers(c)
	var sends []*comm.Pending
	for tag := range 3 {
		sends = append(sends, g.StartSend(Input(array.F32, tag, c.ID(), 4, tag), to, tag))
	}
	for tag := 2; tag >= 0; tag-- {
		got, err := g.Recv(array.New(array.F32, 4, tag), from, tag)
		if err != nil {
			return err
		}
		if err := same(fmt.Sprint("tag ", tag), got, Input(array.F32, tag, from, 4, tag)); err != nil {
			return err
		}
	}
	for _, s := range sends {
		if _, err := s.Wait(); err != nil {
			return err
		}
	}
	return nil
}

func messagesInOrder(c comm.Comm) error {
	g := everyone(c)
	for i := range 20 {
		if c.ID() == 0 {
			if err := g.Send(array.Scalar(int64(i)), 1, 5); err != nil {
				return err
			}
			continue
		}
		got, err := g.Recv(array.New(array.I64), 0, 5)
		if err != nil {
			return err
		}
		if err := same("message", got, array.Scalar(int64(i))); err != nil {
			return err
		}
	}
	return nil
}

func messageToOneself(c comm.Comm) error {
	g := everyone(c)
	x := Input(array.U8, 1, c.ID(), 5)
	sent := g.StartSend(x, c.ID(), 0)
	got, err := g.Recv(array.New(array.U8, 5), c.ID(), 0)
	if err != nil {
		return err
	}
	if _, err := sent.Wait(); err != nil {
		return err
	}
	return same("message to oneself", got, x)
}

// barrier runs several barriers one after the other. It does not check that members wait for each other; a
// test with a clock does.
func barrier(c comm.Comm) error {
	g := everyone(c)
	for range 10 {
		if err := g.Barrier(); err != nil {
			return err
		}
	}
	return nil
}
