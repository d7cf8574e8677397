CREATE TABLE item AS SELECT g AS id, repeat(md5(g::text), 30) AS text FROM generate_series(1, 380000) AS g
