package connectors

// maxMemo bounds the versions of tables that a Memo remembers.
const maxMemo = 10_000

// Memo remembers the text that a sink makes of a stream and a version of a table, such as the name of a target, so that it
// is made once and not for each row. The zero Memo is empty. It is used by one goroutine.
type Memo struct{ made map[memoKey]string }

type memoKey struct {
	stream string
	table  *Table
}

// Of returns what make returned the first time for this stream and table.
func (m *Memo) Of(stream string, t *Table, make func() string) string {
	key := memoKey{stream, t}
	if text, ok := m.made[key]; ok {
		return text
	}
	if m.made == nil || len(m.made) >= maxMemo {
		m.made = map[memoKey]string{}
	}
	text := make()
	m.made[key] = text
	return text
}
