package mysql

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	wire "github.com/go-mysql-org/go-mysql/mysql"
	"github.com/google/uuid"
)

// gtidSet is a set of transactions: of MariaDB the last one of each domain, of MySQL the ranges of each server.
type gtidSet struct {
	maria map[uint32]mariaGTID
	mysql *wire.MysqlGTIDSet
}

// mariaGTID is domain-server-sequence.
type mariaGTID struct {
	domain, server uint32
	sequence       uint64
}

func (g mariaGTID) String() string {
	return fmt.Sprintf("%d-%d-%d", g.domain, g.server, g.sequence)
}

// parseGTIDs reads a set as the servers write it.
func parseGTIDs(maria bool, text string) (*gtidSet, error) {
	text = strings.Join(strings.Fields(text), "")
	if !maria {
		set, err := wire.ParseMysqlGTIDSet(text)
		if err != nil {
			return nil, fmt.Errorf("read GTID set: %w", plain(err))
		}
		return &gtidSet{mysql: set.(*wire.MysqlGTIDSet)}, nil
	}
	s := &gtidSet{maria: map[uint32]mariaGTID{}}
	for _, part := range strings.Split(text, ",") {
		if part == "" {
			continue
		}
		fields := strings.Split(part, "-")
		if len(fields) != 3 {
			return nil, fmt.Errorf("read GTID %q: not of the form 0-1-5", part)
		}
		domain, err1 := strconv.ParseUint(fields[0], 10, 32)
		server, err2 := strconv.ParseUint(fields[1], 10, 32)
		sequence, err3 := strconv.ParseUint(fields[2], 10, 64)
		if err1 != nil || err2 != nil || err3 != nil {
			return nil, fmt.Errorf("read GTID %q: not of the form 0-1-5", part)
		}
		s.add(mariaGTID{uint32(domain), uint32(server), sequence})
	}
	return s, nil
}

func (s *gtidSet) add(g mariaGTID) { s.maria[g.domain] = g }

// addMySQL adds one transaction of a server.
func (s *gtidSet) addMySQL(server uuid.UUID, tag string, number int64) {
	if tag != "" {
		s.mysql.AddGTIDWithTag(server, wire.NewTag(tag), number)
		return
	}
	s.mysql.AddGTID(server, number)
}

func (s *gtidSet) String() string {
	if s.mysql != nil {
		return s.mysql.String()
	}
	var list []mariaGTID
	for _, g := range s.maria {
		list = append(list, g)
	}
	slices.SortFunc(list, func(a, b mariaGTID) int { return int(int64(a.domain) - int64(b.domain)) })
	var parts []string
	for _, g := range list {
		parts = append(parts, g.String())
	}
	return strings.Join(parts, ",")
}

// encode is the form of COM_BINLOG_DUMP_GTID.
func (s *gtidSet) encode() []byte { return s.mysql.Encode() }
