package step

// Rows reports for each row of a batch whether one of the given devices reads it. Only the first tensors
// count, and cut has the number of rows of each micro-batch.
func (p *Plan) Rows(devices func(device int) bool, tensors int, cut []int) []bool {
	begin := make([]int, len(cut)+1)
	for i, n := range cut {
		begin[i+1] = begin[i] + n
	}
	rows := make([]bool, begin[len(cut)])
	for _, t := range p.tapes {
		if t == nil || !devices(t.device) {
			continue
		}
		for i := range t.code {
			in := &t.code[i]
			for _, l := range in.loads {
				if l.batch >= tensors || len(l.box.Size) == 0 {
					continue
				}
				from := begin[in.action.Micro] + l.box.Start[0]
				for row := from; row < min(from+l.box.Size[0], len(rows)); row++ {
					rows[row] = true
				}
			}
		}
	}
	return rows
}
