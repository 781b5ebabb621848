package calibration

import "encoding/binary"

// Keep is how many forecasts a Window holds: the latest count.
const Keep = 200

// Window is the latest forecasts of a class, oldest first. Its zero value holds
// none.
type Window struct {
	Total     uint64 // that were ever added
	Forecasts []Forecast
}

// Add appends a forecast; the oldest falls out when there are more than Keep.
func (w *Window) Add(f Forecast) {
	w.Total++
	w.Forecasts = append(w.Forecasts, f)
	if n := len(w.Forecasts) - Keep; n > 0 {
		w.Forecasts = append(w.Forecasts[:0], w.Forecasts[n:]...)
	}
}

// MarshalBinary is the total in eight bytes and two for each forecast.
func (w *Window) MarshalBinary() ([]byte, error) {
	b := binary.BigEndian.AppendUint64(make([]byte, 0, 8+2*len(w.Forecasts)), w.Total)
	for _, f := range w.Forecasts {
		v := f.Confidence << 1
		if f.Success {
			v |= 1
		}
		b = binary.BigEndian.AppendUint16(b, v)
	}
	return b, nil
}

// UnmarshalBinary reads what MarshalBinary wrote; anything else is an empty
// window.
func (w *Window) UnmarshalBinary(b []byte) error {
	*w = Window{}
	if len(b) < 8 || len(b)%2 != 0 || len(b) > 8+2*Keep {
		return nil
	}
	w.Total = binary.BigEndian.Uint64(b)
	for b = b[8:]; len(b) > 0; b = b[2:] {
		v := binary.BigEndian.Uint16(b)
		w.Forecasts = append(w.Forecasts, Forecast{min(v>>1, Unit), v&1 == 1})
	}
	return nil
}
