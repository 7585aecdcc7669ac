"""The steps by which the tables of the service came to be, in Alembic's form."""
