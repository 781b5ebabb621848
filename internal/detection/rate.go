package detection

import "math"

// Rate is a proportion with its 95 % interval: Hits of N lines or actions. Rate, Low and High are from 0 to 1.
//
// Lines that contain the same attack are not independent trials. The rate is therefore the mean of the
// clusters' rates, and the interval is Wilson's with the number of clusters as trials.
type Rate struct {
	N        int     `json:"n"`
	Clusters int     `json:"clusters"`
	Hits     int     `json:"hits"`
	Rate     float64 `json:"rate"`
	Low      float64 `json:"low"`
	High     float64 `json:"high"`
}

// tally counts hits by cluster. Its zero value is empty.
type tally struct {
	index map[string]int
	n     []int // number of lines in each cluster, in the order of their first lines
	hits  []int
}

func (t *tally) add(cluster string, hit bool) {
	i, ok := t.index[cluster]
	if !ok {
		if t.index == nil {
			t.index = make(map[string]int)
		}
		i = len(t.n)
		t.index[cluster] = i
		t.n, t.hits = append(t.n, 0), append(t.hits, 0)
	}
	t.n[i]++
	if hit {
		t.hits[i]++
	}
}

func (t *tally) rate() Rate {
	r := Rate{Clusters: len(t.n)}
	for i, n := range t.n {
		r.N += n
		r.Hits += t.hits[i]
		r.Rate += float64(t.hits[i]) / float64(n)
	}
	if r.Clusters > 0 {
		r.Rate /= float64(r.Clusters)
	}
	r.Low, r.High = Wilson(r.Rate, r.Clusters)
	return r
}

// Wilson returns the 95 % score interval of a proportion p in n trials; 0 and 1 if n is 0.
func Wilson(p float64, n int) (low, high float64) {
	if n == 0 {
		return 0, 1
	}
	const z = 1.959963984540054
	f := float64(n)
	mid := (p + z*z/(2*f)) / (1 + z*z/f)
	half := z / (1 + z*z/f) * math.Sqrt(p*(1-p)/f+z*z/(4*f*f))
	return max(0, mid-half), min(1, mid+half)
}

// Macro is the mean of the rates of data sets.
type Macro struct {
	Datasets int     `json:"datasets"`
	Rate     float64 `json:"rate"`
}

func (m *Macro) add(r Rate) {
	if r.N > 0 {
		m.Rate = (m.Rate*float64(m.Datasets) + r.Rate) / float64(m.Datasets+1)
		m.Datasets++
	}
}
