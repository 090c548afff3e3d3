package rewrite

import "go.opentelemetry.io/collector/pdata/pprofile"

// moveTimed gives a sample the stack that serves it. uses are those of its instants;
// if they are served by different stacks, the sample is divided among them.
func (p *pass) moveTimed(profile pprofile.Profile, s pprofile.Sample, uses []int32) {
	to := func(i int) int32 { return p.split.uses[uses[i]].to }
	same := true
	for i := range uses {
		same = same && to(i) == to(0)
	}
	if same {
		s.SetStackIndex(to(0))
		return
	}
	rest := pprofile.NewSample() // all but values and timestamps
	s.AttributeIndices().CopyTo(rest.AttributeIndices())
	rest.SetLinkIndex(s.LinkIndex())
	var order []int32
	parts := make(map[int32]*part)
	for i := range uses {
		t := parts[to(i)]
		if t == nil {
			t = new(part)
			parts[to(i)] = t
			order = append(order, to(i))
		}
		t.stamps = append(t.stamps, s.TimestampsUnixNano().At(i))
		if s.Values().Len() > 0 {
			t.values = append(t.values, s.Values().At(i))
		}
	}
	for i, stack := range order {
		if i > 0 {
			s = profile.Samples().AppendEmpty()
			rest.CopyTo(s)
		}
		s.SetStackIndex(stack)
		s.TimestampsUnixNano().FromRaw(parts[stack].stamps)
		s.Values().FromRaw(parts[stack].values)
	}
}

// part is what a part of a sample has of its own.
type part struct {
	stamps []uint64
	values []int64
}
