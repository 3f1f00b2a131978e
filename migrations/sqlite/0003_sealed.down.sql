DROP TABLE sealed;
