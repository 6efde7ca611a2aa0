package postgres

import (
	"bytes"
	"slices"

	"github.com/trunkline/trunkline/connectors"
)

// maxDimensions is PostgreSQL's own limit (MAXDIM).
const maxDimensions = 6

// appendArray appends an array literal ({1,NULL,"a b"}) as a JSON array of the elements' own JSON, nested for more
// dimensions. It returns false for one with lower bounds of its own ([0:1]={1,2}) and for text that is no array.
func (d *decoder) appendArray(dst, text []byte) ([]byte, bool) {
	if len(text) < 2 || text[0] != '{' {
		return dst, false
	}
	p := arrayParser{text: text, decoder: d}
	dst, ok := p.dimension(dst, 1)
	return dst, ok && p.at == len(text)
}

type arrayParser struct {
	text    []byte
	at      int
	decoder *decoder
	scratch rows // one element without its quoting, and its value
}

// dimension reads from an opening to its closing brace.
func (p *arrayParser) dimension(dst []byte, depth int) ([]byte, bool) {
	if depth > maxDimensions {
		return dst, false
	}
	p.at++
	dst = append(dst, '[')
	if p.peek() == '}' {
		p.at++
		return append(dst, ']'), true
	}
	for {
		ok := true
		if p.peek() == '{' {
			dst, ok = p.dimension(dst, depth+1)
		} else {
			dst, ok = p.element(dst)
		}
		if !ok {
			return dst, false
		}
		switch p.peek() {
		case p.decoder.delim:
			p.at++
			dst = append(dst, ',')
		case '}':
			p.at++
			return append(dst, ']'), true
		default:
			return dst, false
		}
	}
}

// peek returns the next byte, zero at the end.
func (p *arrayParser) peek() byte {
	if p.at < len(p.text) {
		return p.text[p.at]
	}
	return 0
}

// element reads one element, quoted or not.
func (p *arrayParser) element(dst []byte) ([]byte, bool) {
	if p.peek() == '"' {
		p.scratch.reset()
		p.at++
		for ; ; p.at++ {
			switch p.peek() {
			case 0:
				if p.at >= len(p.text) {
					return dst, false
				}
			case '"':
				p.at++
				return p.appendElement(dst, p.scratch.arena), true
			case '\\':
				if p.at++; p.at >= len(p.text) {
					return dst, false
				}
			}
			p.scratch.arena = append(p.scratch.arena, p.text[p.at])
		}
	}
	start := p.at
	for p.at < len(p.text) && p.text[p.at] != p.decoder.delim && p.text[p.at] != '}' {
		if p.text[p.at] == '{' || p.text[p.at] == '"' {
			return dst, false
		}
		p.at++
	}
	word := p.text[start:p.at]
	if len(word) == 0 {
		return dst, false
	}
	if string(word) == "NULL" {
		return append(dst, "null"...), true
	}
	p.scratch.reset()
	return p.appendElement(dst, word), true
}

func (p *arrayParser) appendElement(dst, text []byte) []byte {
	return connectors.AppendJSON(dst, p.decoder.elem.value(&p.scratch, text))
}

// appendHstore appends "a"=>"1", "b"=>NULL as a JSON object. The keys of an hstore are unique and sorted.
func appendHstore(dst, text []byte) ([]byte, bool) {
	dst = append(dst, '{')
	var scratch []byte
	for at := 0; at < len(text); {
		if at > 0 {
			if !bytes.HasPrefix(text[at:], []byte(", ")) {
				return dst, false
			}
			at += 2
			dst = append(dst, ',')
		}
		var ok bool
		if scratch, at, ok = hstoreString(scratch[:0], text, at); !ok || !bytes.HasPrefix(text[at:], []byte("=>")) {
			return dst, false
		}
		at += 2
		dst = append(connectors.AppendJSONString(dst, scratch), ':')
		if bytes.HasPrefix(text[at:], []byte("NULL")) {
			at += 4
			dst = append(dst, "null"...)
			continue
		}
		if scratch, at, ok = hstoreString(scratch[:0], text, at); !ok {
			return dst, false
		}
		dst = connectors.AppendJSONString(dst, scratch)
	}
	return append(dst, '}'), true
}

// hstoreString reads a quoted string at a place and returns it with the place after it.
func hstoreString(dst, text []byte, at int) ([]byte, int, bool) {
	if at >= len(text) || text[at] != '"' {
		return dst, at, false
	}
	for at++; at < len(text); at++ {
		switch text[at] {
		case '"':
			return dst, at + 1, true
		case '\\':
			if at++; at >= len(text) {
				return dst, at, false
			}
		}
		dst = append(dst, text[at])
	}
	return slices.Clip(dst), at, false
}
