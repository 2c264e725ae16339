package checkpoint

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/internal/safetensors"
	"github.com/galley-ml/galley/mesh"
)

// piece is a box of a tensor that is written once.
type piece struct {
	tensor  int
	box     mesh.Box
	holders []int // numbers of the tensor's parts
	part    int   // the one that is written
	key     string
	data    array.Array // what is written: a copy of the part's
}

// plan assigns pieces to files. Pieces are ordered by tensor, then by position; devices are sorted.
type plan struct {
	tensors  []Tensor // the caller's; nil after a snapshot
	pieces   []piece
	devices  []int
	files    [][]int // pieces by position in devices
	bytes    int64
	manifest manifest // without the files' sizes and checksums
}

// newPlan checks a state and decides which device writes what. It needs types and boxes only, and is
// deterministic.
func newPlan(s State) (*plan, error) {
	p := &plan{tensors: s.Tensors}
	if err := s.Meta.check(); err != nil {
		return nil, err
	}
	seen := map[string]bool{}
	for i, t := range s.Tensors {
		if err := checkName("tensor", t.Name, seen); err != nil {
			return nil, err
		}
		if err := p.addTensor(i, t); err != nil {
			return nil, fmt.Errorf("tensor %q: %w", t.Name, err)
		}
	}
	p.assign()
	p.nameKeys()
	p.manifest = p.newManifest(s.Meta)
	return p, nil
}

func (p *plan) addTensor(i int, t Tensor) error {
	if err := checkType(t.Type); err != nil {
		return err
	}
	var pieces []piece
	at := map[string]int{}
	for k, part := range t.Parts {
		if err := checkPart(t, part); err != nil {
			return fmt.Errorf("device %d: %w", part.Device, err)
		}
		if part.Box.Empty() {
			continue
		}
		key := part.Box.String()
		n, ok := at[key]
		if !ok {
			n = len(pieces)
			at[key] = n
			pieces = append(pieces, piece{tensor: i, box: part.Box})
		}
		pieces[n].holders = append(pieces[n].holders, k)
	}
	slices.SortFunc(pieces, func(a, b piece) int { return slices.Compare(a.box.Start, b.box.Start) })
	p.pieces = append(p.pieces, pieces...)
	boxes := make([]mesh.Box, len(pieces))
	for n := range pieces {
		boxes[n] = pieces[n].box
	}
	return checkTiling(t.Type.Shape, boxes)
}

func checkPart(t Tensor, part Part) error {
	if part.Device < 0 {
		return fmt.Errorf("got number %d, want at least 0", part.Device)
	}
	if err := checkBox(t.Type.Shape, part.Box); err != nil {
		return err
	}
	if part.Away || part.Read != nil && !part.Data.IsValid() {
		return nil
	}
	if part.Data.DType() != t.Type.DType || !part.Data.Shape().Equal(part.Box.Size) {
		return fmt.Errorf("data: got %v%v, want %v%v", part.Data.DType(), part.Data.Shape(), t.Type.DType,
			array.Shape(part.Box.Size))
	}
	return nil
}

// assign gives each piece, the largest first, to the holder that has the least to write so far.
func (p *plan) assign() {
	load := map[int]int64{}
	for _, i := range p.largestFirst() {
		pc := &p.pieces[i]
		parts := p.tensors[pc.tensor].Parts
		pc.part = slices.MinFunc(pc.holders, func(a, b int) int {
			return cmp.Or(cmp.Compare(load[parts[a].Device], load[parts[b].Device]),
				cmp.Compare(parts[a].Device, parts[b].Device))
		})
		load[parts[pc.part].Device] += p.size(i)
		p.bytes += p.size(i)
	}
	for device := range load {
		p.devices = append(p.devices, device)
	}
	slices.Sort(p.devices)
	p.files = make([][]int, len(p.devices))
	for i := range p.pieces {
		n, _ := slices.BinarySearch(p.devices, p.device(i))
		p.files[n] = append(p.files[n], i)
	}
}

// nameKeys names the pieces of all files.
func (p *plan) nameKeys() {
	for _, pieces := range p.files {
		list := make([]piece, len(pieces))
		for n, i := range pieces {
			list[n] = p.pieces[i]
		}
		nameKeys(p.tensors, list)
		for n, i := range pieces {
			p.pieces[i].key = list[n].key
		}
	}
}

// nameKeys names the pieces of a file: a whole tensor by its name, so that other readers of the file
// recognise it.
func nameKeys(tensors []Tensor, pieces []piece) {
	used := map[string]bool{"__metadata__": true} // the file format's own
	for i := range pieces {
		pc := &pieces[i]
		t := tensors[pc.tensor]
		pc.key = t.Name
		if !pc.box.Equal(boxOf(t.Type.Shape)) {
			pc.key += pc.box.String()
		}
		for used[pc.key] { // a tensor may have the name of another's piece
			pc.key += "'"
		}
		used[pc.key] = true
	}
}

func (p *plan) size(i int) int64 {
	pc := p.pieces[i]
	return int64(pc.box.Len()) * int64(p.tensors[pc.tensor].Type.DType.Size())
}

func (p *plan) device(i int) int { return p.tensors[p.pieces[i].tensor].Parts[p.pieces[i].part].Device }

// snapshot copies what is to be written into buffers, which it extends and returns: those of the previous
// save fit as long as the state does not change its shapes. The plan then needs nothing of the caller's
// memory.
func (p *plan) snapshot(buffers []array.Array) ([]array.Array, error) {
	for i := range p.pieces {
		pc := &p.pieces[i]
		t := p.tensors[pc.tensor]
		if i == len(buffers) {
			buffers = append(buffers, array.Array{})
		}
		if t.Parts[pc.part].Away {
			buffers[i] = array.Array{}
			continue
		}
		if b := buffers[i]; b.DType() != t.Type.DType || !b.Shape().Equal(pc.box.Size) {
			buffers[i] = array.New(t.Type.DType, array.Shape(pc.box.Size).Clone()...)
		}
		pc.data = buffers[i]
		if part := t.Parts[pc.part]; part.Data.IsValid() {
			copy(pc.data.Bytes(), part.Data.Bytes())
		} else if err := part.Read(pc.data); err != nil {
			return buffers, fmt.Errorf("tensor %q%v of device %d: %w", t.Name, pc.box, part.Device, err)
		}
	}
	p.tensors = nil
	clear(buffers[len(p.pieces):])
	return buffers[:len(p.pieces)], nil
}

// here reports whether this process writes a file, all of which belongs to one device.
func (p *plan) here(file int) bool { return p.pieces[p.files[file][0]].data.IsValid() }

// named returns the tensors of a file.
func (p *plan) named(file int) []safetensors.Named {
	list := make([]safetensors.Named, 0, len(p.files[file]))
	for _, i := range p.files[file] {
		list = append(list, safetensors.Named{Name: p.pieces[i].key, Array: p.pieces[i].data})
	}
	return list
}
